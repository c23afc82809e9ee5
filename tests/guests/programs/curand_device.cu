// cuRAND's device interface: each generator in a kernel gives the numbers that the same functions, compiled for the host, give.

#define QUALIFIERS static __forceinline__ __host__ __device__
#include <curand_kernel.h>

#include "check.h"

static const int THREADS = 96, EACH = 8;

template <class State>
__host__ __device__ void draw(int thread, unsigned* bits, float* uniform, float* normal, double* doubles) {
    State state;
    curand_init(1234ULL, thread, 5ULL, &state);
    for (int at = 0; at < EACH; at++) {
        int place = thread * EACH + at;
        bits[place] = curand(&state);
        uniform[place] = curand_uniform(&state);
        normal[place] = curand_normal(&state);
        doubles[place] = curand_uniform_double(&state);
    }
}

template <class State>
__global__ void kernel(unsigned* bits, float* uniform, float* normal, double* doubles) {
    draw<State>(blockIdx.x * blockDim.x + threadIdx.x, bits, uniform, normal, doubles);
}

template <class State>
void test(const char* name) {
    const int count = THREADS * EACH;
    std::vector<unsigned> bits(count);
    std::vector<float> uniform(count), normal(count);
    std::vector<double> doubles(count);
    for (int thread = 0; thread < THREADS; thread++) draw<State>(thread, bits.data(), uniform.data(), normal.data(), doubles.data());
    Device<unsigned> on_bits(count);
    Device<float> on_uniform(count), on_normal(count);
    Device<double> on_doubles(count);
    kernel<State><<<3, THREADS / 3>>>(on_bits, on_uniform, on_normal, on_doubles);
    CHECK(cudaDeviceSynchronize());
    equal(name, on_bits.get(), bits);
    close(name, on_uniform.get(), uniform, 1e-7);
    close(name, on_normal.get(), normal, 1e-5);
    close(name, on_doubles.get(), doubles, 1e-15);
    std::printf("%s\n", name);
}

// Philox4x32-10 as Salmon, Moraes, Dror and Shaw describe it ("Parallel random numbers: as easy as 1, 2, 3", 2011).
static void philox(uint32_t counter[4], uint32_t key0, uint32_t key1) {
    for (int round = 0; round < 10; round++) {
        uint64_t first = uint64_t(0xD2511F53) * counter[0], second = uint64_t(0xCD9E8D57) * counter[2];
        uint32_t next[] = {uint32_t(second >> 32) ^ counter[1] ^ key0, uint32_t(second), uint32_t(first >> 32) ^ counter[3] ^ key1, uint32_t(first)};
        std::copy(next, next + 4, counter);
        key0 += 0x9E3779B9;
        key1 += 0xBB67AE85;
    }
}

__global__ void four(uint4* found) {
    curandStatePhilox4_32_10_t state;
    curand_init(0x123456789ULL, threadIdx.x, 0, &state);
    found[threadIdx.x] = curand4(&state);
}

static void by_definition() {
    Device<uint4> there(64);
    four<<<1, 64>>>(there);
    CHECK(cudaDeviceSynchronize());
    auto found = there.get();
    for (uint32_t thread = 0; thread < 64; thread++) {
        uint32_t counter[] = {0, 0, thread, 0};
        philox(counter, 0x23456789, 1);
        require("Philox by its definition", found[thread].x == counter[0] && found[thread].y == counter[1] && found[thread].z == counter[2] && found[thread].w == counter[3]);
    }
    std::printf("Philox by its definition\n");
}

int main() {
    test<curandStateXORWOW_t>("XORWOW");
    test<curandStateMRG32k3a_t>("MRG32k3a");
    test<curandStatePhilox4_32_10_t>("Philox");
    by_definition();
    std::printf("PASS\n");
}
