// Rounds of a search: time by events, a count, and as many results as the count says.
#include <chrono>
#include <iostream>

#include "common.cuh"

struct Match {
    unsigned key, hash;
};

__global__ void match(unsigned seed, Match *results, int *found, int most) {
    unsigned key = seed + blockIdx.x * blockDim.x + threadIdx.x, hash = key * 2654435761u;
    if (hash >> 22) return;
    int at = atomicAdd(found, 1);
    if (at < most) results[at] = {key, hash};
}

int main() {
    const int most = 100;
    Match h_results[most], *d_results = on_device<Match>(most);
    int *d_found = on_device<int>(1), h_found = 0, rounds = 0;
    unsigned long long tested = 0;
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    while (tested < 200000) {
        cudaMemset(d_found, 0, sizeof(int));
        cudaEventRecord(start);
        match<<<8, 128>>>((unsigned)tested, d_results, d_found, most);
        cudaEventRecord(stop);
        cudaEventSynchronize(stop);
        cudaError_t code = cudaGetLastError();
        if (code != cudaSuccess) {
            std::cout << cudaGetErrorString(code) << std::endl;
            break;
        }
        float milliseconds = 0;
        cudaEventElapsedTime(&milliseconds, start, stop);
        cudaMemcpy(&h_found, d_found, sizeof(int), cudaMemcpyDeviceToHost);
        if (h_found > 0) cudaMemcpy(h_results, d_results, h_found * sizeof(Match), cudaMemcpyDeviceToHost);
        tested += 1024, rounds++;
        for (int i = 0; i < h_found; ++i)
            if (h_results[i].hash == 0) std::cout << h_results[i].key << std::endl;
    }
    std::cout << rounds << " rounds" << std::endl;
}
