// Records of every kind that a host's data plane issues by itself, many times over; what it prints is computed on the host as well.
// With an argument: a kernel that does not end, and a wait for it.
#include "check.h"
#include <cstdio>

__global__ void mix(unsigned *word, unsigned value) { *word = *word * 3 + value; }

__global__ void spin(volatile unsigned *word)
{
    while (*word == 0) { }
}

int main(int count, char **)
{
    unsigned *words, word = 5, copied = 0;
    CHECK(cudaMalloc(&words, 64));
    if (count > 1) {
        CHECK(cudaMemset(words, 0, 64));
        spin<<<1, 1>>>(words);
        std::puts("waiting");
        std::fflush(stdout);
        CHECK(cudaDeviceSynchronize());
        return 0;
    }
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaMemcpy(words, &word, sizeof word, cudaMemcpyHostToDevice));
    for (unsigned i = 0; i < 10000; i++) {
        mix<<<1, 1, 0, stream>>>(words, i);
        word = word * 3 + i;
    }
    for (unsigned i = 0; i < 100; i++) {
        CHECK(cudaMemsetAsync(words + 4, int(i), 4, stream));
        CHECK(cudaMemcpyAsync(words + 5, words + 4, 4, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaEventRecord(event, stream));
        CHECK(cudaStreamWaitEvent(stream, event, 0));
        CHECK(cudaMemcpy(words + 6, &i, sizeof i, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpyAsync(&copied, words, sizeof copied, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventSynchronize(event));
        CHECK(cudaDeviceSynchronize());
    }
    std::printf("%s\n", copied == word ? "the same" : "different");
    return 0;
}
