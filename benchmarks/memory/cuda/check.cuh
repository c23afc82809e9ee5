// What the programs share: device arrays, fixed random numbers, and an end that says whether the result is right.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define MUST(call)                                                              \
    do {                                                                        \
        cudaError_t result_ = (call);                                           \
        if (result_ != cudaSuccess) {                                           \
            std::printf("%s: %s\n", #call, cudaGetErrorString(result_));        \
            std::exit(2);                                                       \
        }                                                                       \
    } while (0)

template <typename T>
T *to_device(const std::vector<T> &values) {
    T *data = nullptr;
    MUST(cudaMalloc(&data, values.size() * sizeof(T)));
    MUST(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return data;
}

template <typename T>
T *room(size_t count) {
    T *data = nullptr;
    MUST(cudaMalloc(&data, count * sizeof(T)));
    MUST(cudaMemset(data, 0, count * sizeof(T)));
    return data;
}

template <typename T>
std::vector<T> from_device(const T *data, size_t count) {
    std::vector<T> values(count);
    MUST(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

struct Random {
    uint64_t state;
    uint32_t operator()() {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        return uint32_t(state >> 33);
    }
};

inline int finish(bool right) {
    MUST(cudaDeviceSynchronize());
    std::puts(right ? "right" : "WRONG");
    return right ? 0 : 1;
}

inline int argument(int count, char **words, int number, int otherwise) {
    return count > number ? std::atoi(words[number]) : otherwise;
}
