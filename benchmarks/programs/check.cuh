// What the benchmarks' programs do with an error: say where, and end.

#pragma once

#include <cstdio>
#include <cstdlib>

#define OK(call)                                                                                           \
    do {                                                                                                   \
        cudaError_t got = (call);                                                                          \
        if (got != cudaSuccess) {                                                                          \
            std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(got));            \
            std::exit(1);                                                                                  \
        }                                                                                                  \
    } while (0)
