// What programs of this kind have around their loops: checks of error codes, data, a timer.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/time.h>
#include <utility>
#include <vector>

#define CHECK(call)                                                                                    \
    do {                                                                                               \
        cudaError_t code_ = (call);                                                                    \
        if (code_ != cudaSuccess) {                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(code_));             \
            exit(EXIT_FAILURE);                                                                        \
        }                                                                                              \
    } while (0)

inline double seconds() {
    timeval now;
    gettimeofday(&now, nullptr);
    return now.tv_sec + now.tv_usec * 1e-6;
}

template <typename T>
T *on_device(size_t count) {
    T *made = nullptr;
    CHECK(cudaMalloc((void **)&made, count * sizeof(T)));
    CHECK(cudaMemset(made, 0, count * sizeof(T)));
    return made;
}

inline void graph(int nodes, std::vector<int> &starts, std::vector<int> &edges) {
    for (int node = 0; node < nodes; ++node) {
        starts.push_back((int)edges.size());
        for (int step = 1; step < 4; ++step) edges.push_back((node * 2 + step) % nodes);
    }
    starts.push_back((int)edges.size());
}
