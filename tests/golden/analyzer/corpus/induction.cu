// Class 2: arguments are functions of the iteration's number.
#include "common.cuh"

#include <cmath>

struct Box {
    int low, high;
    float weight;
};

static __global__ void boxed(float *data, Box box) { data[threadIdx.x] += box.low + box.high * box.weight; }

static __global__ void many(float *data, int a, int b, int c, int d, int e, int f, int g, int h) {
    data[threadIdx.x] += a + b + c + d + e + f + g + h;
}

static __global__ void precise(float *data, double amount) { data[threadIdx.x] += float(amount); }

PROGRAM affine(float *data, int rounds) {
    for (int i = 0; i < rounds; i += 2) {
        cudaMemset(data + COUNT * i, 0, BYTES);
        touch<<<4, 256>>>(data, 3 * i + 1, COUNT);
    }
}

PROGRAM downward(float *data) {
    for (int left = 12; left > 0; --left) touch<<<4, 256>>>(data, left, COUNT);
}

PROGRAM through_pointer(float *data, int rounds) {
    for (float *row = data; row < data + COUNT * rounds; row += COUNT) cudaMemset(row, 0, BYTES);
}

PROGRAM halving(float *data) {
    for (int stride = 512; stride > 0; stride >>= 1) touch<<<4, 256>>>(data, stride, COUNT);
}

PROGRAM halving_from(float *data, int from) {
    for (int stride = from; stride > 0; stride >>= 1) touch<<<4, 256>>>(data, stride, COUNT);
}

PROGRAM doubling(float *data, int end) {
    for (int stride = 1; stride < end; stride *= 2) touch<<<4, 256>>>(data, stride, COUNT);
}

PROGRAM square(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) touch<<<4, 256>>>(data, i * i, COUNT);
}

PROGRAM remainder_of(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) touch<<<4, 256>>>(data, i & 3, COUNT);
}

PROGRAM accumulated(float *data, int rounds, float step) {
    float time = 0;
    for (int i = 0; i < rounds; ++i) {
        scale<<<4, 256>>>(data, time, COUNT);
        time += step;
    }
}

PROGRAM converted(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) precise<<<1, 32>>>(data, 0.5 * i);
}

PROGRAM shape(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) touch<<<i + 1, 64, 16 * i>>>(data, 1, COUNT);
}

PROGRAM by_value(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) boxed<<<1, 32>>>(data, Box{i, 2 * i, 0.5f});
}

PROGRAM on_the_stack(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) many<<<1, 32>>>(data, i, i + 1, i + 2, i + 3, 4, 5, 6, 7 * i);
}

PROGRAM two_variables(float *data, int rounds) {
    for (int i = 0, j = rounds; i < j; ++i, --j) touch<<<4, 256>>>(data, 100 * i + j, COUNT);
}

PROGRAM nest(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i)
        for (int j = 0; j < 20; ++j) touch<<<4, 256>>>(data + 4 * j, i, COUNT / 2);
}

PROGRAM triangle(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i)
        for (int j = 0; j < i; ++j) touch<<<4, 256>>>(data, i + j, COUNT);
}

PROGRAM triangle_down(float *data, int rounds) {
    for (int k = 2; k <= rounds; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) touch<<<4, 256>>>(data, k + j, COUNT);
}

PROGRAM three_deep(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i)
        for (int j = 0; j < rounds; ++j)
            for (int k = 0; k < 10; ++k) touch<<<4, 256>>>(data, i + 10 * j + 100 * k, COUNT);
}

PROGRAM around_a_nest(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        cudaMemset(data, i, 64);
        for (int j = 0; j < 20; ++j) touch<<<4, 256>>>(data, j, COUNT);
        cudaMemset(data, 0, 64);
    }
}

PROGRAM every_third(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i)
        if (i % 3 == 1) touch<<<4, 256>>>(data, i, COUNT);
}

PROGRAM not_the_first(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        if (i > 0) cudaMemset(data, 0, BYTES);
        touch<<<4, 256>>>(data, i, COUNT);
    }
}

// The branch does not change: the same calls in every iteration.
PROGRAM by_mode(float *data, int rounds, bool clear) {
    for (int i = 0; i < rounds; ++i) {
        if (clear) cudaMemset(data, 0, BYTES);
        touch<<<4, 256>>>(data, i, COUNT);
    }
}

// A function of the C library's whose result is one of its arguments.
PROGRAM by_power(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) touch<<<4, 256>>>(data, (int)pow(1.5, i), COUNT);
}

// The sign of a number is changed by an instruction on the whole vector register.
PROGRAM negated(float *data, float factor, int rounds) {
    for (int i = 0; i < rounds; ++i) scale<<<4, 256>>>(data, i & 1 ? -factor : factor, COUNT);
}

// The configuration of these launches is a structure.
PROGRAM launched_by_structure(float *data, int rounds) {
    cudaLaunchConfig_t shape = {};
    shape.gridDim = dim3(4), shape.blockDim = dim3(256);
    for (int i = 0; i < rounds; ++i) {
        int offset = i, count = COUNT;
        void *parameters[] = {&data, &offset, &count};
        shape.dynamicSmemBytes = 16 * i;
        cudaLaunchKernelExC(&shape, (const void *)touch, parameters);
    }
}

CORPUS_MAIN

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    Arena arena;
    float *data = arena.a;
    affine(data, rounds), downward(data), through_pointer(data, rounds), halving(data), halving_from(data, 8 * rounds);
    doubling(data, 8 * rounds), square(data, rounds), remainder_of(data, rounds), accumulated(data, rounds, 0.25f);
    converted(data, rounds), shape(data, rounds), by_value(data, rounds), on_the_stack(data, rounds);
    two_variables(data, rounds), nest(data, rounds), triangle(data, rounds), triangle_down(data, 16);
    three_deep(data, 3), around_a_nest(data, rounds), every_third(data, rounds), not_the_first(data, rounds);
    by_mode(data, rounds, true), by_mode(data, rounds, false), by_power(data, rounds);
    negated(data, 2, rounds), launched_by_structure(data, rounds);
    return cudaDeviceSynchronize() != cudaSuccess;
}
