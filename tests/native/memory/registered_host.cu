// The program's own memory as pinned memory: registered, copied asynchronously, asked for, unregistered; errors.
#include "../support.cuh"

__global__ void scale(double *data, int count, double factor) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        data[i] *= factor;
    }
}

int main() {
    Verdict verdict;
    const int count = 20000;
    std::vector<double> memory(count), expected(count);
    for (int i = 0; i < count; ++i) {
        memory[i] = i;
        expected[i] = i * 2.5;
    }
    const size_t bytes = count * sizeof(double);
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, memory.data()));
    verdict.expect(attributes.type == cudaMemoryTypeUnregistered, "ordinary at first");
    CHECK(cudaHostRegister(memory.data(), bytes, cudaHostRegisterPortable));
    CHECK(cudaPointerGetAttributes(&attributes, memory.data() + 5));
    verdict.expect(attributes.type == cudaMemoryTypeHost, "registered");
    verdict.expect(cudaHostRegister(memory.data(), 64, 0) == cudaErrorHostMemoryAlreadyRegistered, "only once");
    verdict.expect(cudaGetLastError() == cudaErrorHostMemoryAlreadyRegistered, "which is told again");

    DeviceArray<double> device(count);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const int half = count / 2;
    for (int part = 0; part < 2; ++part) {
        double *there = device.get() + part * half, *here = memory.data() + part * half;
        CHECK(cudaMemcpyAsync(there, here, bytes / 2, cudaMemcpyHostToDevice, stream));
        scale<<<8, 64, 0, stream>>>(there, half, 2.5);
        CHECK_LAUNCH();
        CHECK(cudaMemcpyAsync(here, there, bytes / 2, cudaMemcpyDeviceToHost, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    verdict.equal(memory, expected, "scaled");
    CHECK(cudaHostUnregister(memory.data()));
    verdict.expect(cudaHostUnregister(memory.data()) == cudaErrorHostMemoryNotRegistered, "no longer registered");
    cudaGetLastError();
    CHECK(cudaStreamDestroy(stream));
    std::printf("registered_host\n");
    return verdict.finish();
}
