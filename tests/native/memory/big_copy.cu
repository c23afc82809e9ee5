// 64 MiB to the device and back, in one copy and in many; odd sizes and offsets; copies on the device.
#include <cstring>

#include "../support.cuh"

__global__ void invert(unsigned long long *data, size_t n) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
        data[i] = ~data[i];
    }
}

int main() {
    const size_t bytes = size_t(64) << 20;
    const size_t n = bytes / sizeof(unsigned long long);
    Verdict verdict;
    Random random(13);
    std::vector<unsigned long long> source(n), result(n);
    for (unsigned long long &value : source) {
        value = random.next();
    }
    unsigned char *device = nullptr, *second = nullptr;
    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaMemcpy(device, source.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(result.data(), device, bytes, cudaMemcpyDeviceToHost));
    verdict.expect(std::memcmp(source.data(), result.data(), bytes) == 0, "64 MiB to the device and back");

    invert<<<64, 256>>>(reinterpret_cast<unsigned long long *>(device), n);
    CHECK_LAUNCH();
    CHECK(cudaMalloc(&second, bytes));
    CHECK(cudaMemcpy(second, device, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaFree(device));
    std::memset(result.data(), 0, bytes);
    CHECK(cudaMemcpy(result.data(), second, bytes, cudaMemcpyDeviceToHost));
    bool right = true;
    for (size_t i = 0; i < n; ++i) {
        right = right && result[i] == ~source[i];
    }
    verdict.expect(right, "inverted and copied on the device");

    // Pieces of odd sizes at odd places, in both directions.
    const size_t sizes[] = {1, 3, 7, 4093, 65536, 65537, 1048575, 1048576, 1048577, 3000001};
    const unsigned char *bytes_of_source = reinterpret_cast<const unsigned char *>(source.data());
    unsigned char *bytes_of_result = reinterpret_cast<unsigned char *>(result.data());
    size_t offset = 5;
    for (size_t size : sizes) {
        CHECK(cudaMemcpy(second + offset, bytes_of_source + offset, size, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(bytes_of_result + offset, second + offset, size, cudaMemcpyDeviceToHost));
        verdict.expect(std::memcmp(bytes_of_source + offset, bytes_of_result + offset, size) == 0, "a piece");
        offset += size + 11;
    }
    // cudaMemcpyDefault finds the direction itself.
    CHECK(cudaMemcpy(second, bytes_of_source, 100000, cudaMemcpyDefault));
    CHECK(cudaMemcpy(bytes_of_result, second, 100000, cudaMemcpyDefault));
    verdict.expect(std::memcmp(bytes_of_source, bytes_of_result, 100000) == 0, "direction found by the addresses");
    CHECK(cudaFree(second));
    print_checksum("big_copy", source);
    return verdict.finish();
}
