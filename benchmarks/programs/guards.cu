// A loop of launches and copies to the host into a large block, for guards.py. Arguments: when the program reads what was copied (after the loop,
// or in each iteration), iterations, bytes of a copy, bytes of the block. Prints the microseconds of an iteration, reading included.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <malloc.h>

__global__ void put(int *to, int value) { *to = value; }

int main(int, char **arguments) {
    const bool each = std::strcmp(arguments[1], "each") == 0;
    const int count = std::atoi(arguments[2]);
    const size_t bytes = std::strtoul(arguments[3], nullptr, 10), block = std::strtoul(arguments[4], nullptr, 10);
    char *device = nullptr, *host = static_cast<char *>(std::malloc(block));
    std::memset(host, 1, block);
    if (cudaMalloc(&device, bytes) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess)
        return 1;
    const auto began = std::chrono::steady_clock::now();
    unsigned long total = 0;
    size_t place = 0;
    for (int i = 0; i < count; ++i) {
        put<<<1, 1>>>(reinterpret_cast<int *>(device), i * i % 77);
        cudaMemcpy(host + place, device, bytes, cudaMemcpyDeviceToHost);
        if (each)
            total = total * 31 + host[place];
        place = place + 2 * bytes <= block ? place + bytes : 0;
    }
    for (size_t at = 0; at < block; at += 4096)
        total = total * 31 + host[at];
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
    std::printf("{\"iteration\": %.3f, \"total\": %lu}\n", took.count() / count, total % 1000003);
    std::free(host);
}
