// Kernels that do wrong, one for each argument. Prints how the runtime reports it, and that the error stays.
#include <cstring>

#include "../support.cuh"

__global__ void store(int *pointer) { *pointer = 1; }
__global__ void load(const int *pointer, int *out) { *out = *pointer; }
__global__ void good(int *out) { *out = 42; }
__global__ void trap() { asm volatile("trap;"); }

// Only one thread of many reaches far beyond the array.
__global__ void wild_thread(int *data, size_t stride) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    data[i == 777 ? stride : i] = 1;
}

int main(int argc, char **argv) {
    const char *kind = argc == 2 ? argv[1] : "";
    int *data = nullptr;
    CHECK(cudaMalloc(&data, 1024 * sizeof(int)));
    int *freed = nullptr;
    CHECK(cudaMalloc(&freed, 64 << 20));
    good<<<1, 1>>>(data);
    CHECK(cudaDeviceSynchronize());

    if (std::strcmp(kind, "null") == 0) {
        store<<<1, 1>>>(nullptr);
    } else if (std::strcmp(kind, "load") == 0) {
        load<<<1, 1>>>(reinterpret_cast<const int *>(0x10), data);
    } else if (std::strcmp(kind, "host") == 0) {
        static int on_the_host;
        load<<<1, 1>>>(&on_the_host, data);
    } else if (std::strcmp(kind, "registered") == 0) {
        static int registered[1024];
        CHECK(cudaHostRegister(registered, sizeof registered, cudaHostRegisterMapped));
        void *there = nullptr;
        if (cudaHostGetDevicePointer(&there, registered, 0) != cudaErrorNotSupported) {
            return 3;
        }
        cudaGetLastError();
        load<<<1, 1>>>(registered + 5, data);
    } else if (std::strcmp(kind, "beyond") == 0) {
        wild_thread<<<8, 128>>>(data, size_t(1) << 40);
    } else if (std::strcmp(kind, "freed") == 0) {
        CHECK(cudaFree(freed));
        store<<<1, 1>>>(freed + (8 << 20));
    } else if (std::strcmp(kind, "trap") == 0) {
        trap<<<1, 1>>>();
    } else {
        std::printf("usage: fault null|load|host|registered|beyond|freed|trap\n");
        return 2;
    }
    cudaError_t launch = cudaGetLastError();
    cudaError_t synchronize = cudaDeviceSynchronize();
    cudaError_t peek = cudaPeekAtLastError();
    void *pointer = nullptr;
    cudaError_t allocate = cudaMalloc(&pointer, 64);
    good<<<1, 1>>>(data);
    cudaError_t relaunch = cudaGetLastError();
    int value = 0;
    cudaError_t copy = cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost);
    cudaError_t again = cudaDeviceSynchronize();
    std::printf("launch %d\nsynchronize %d %s\npeek %d\nallocate %d\nrelaunch %d\ncopy %d\nagain %d\n", launch,
                synchronize, cudaGetErrorName(synchronize), peek, allocate, relaunch, copy, again);
    return 0;
}
