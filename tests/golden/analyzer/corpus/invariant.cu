// Class 1: no argument changes from one iteration to the next.
#include "common.cuh"

PROGRAM fixed_count(float *data) {
    for (int i = 0; i < 10; ++i) touch<<<4, 256>>>(data, 7, COUNT);
}

PROGRAM variable_count(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) touch<<<4, 256>>>(data, 7, COUNT);
}

PROGRAM do_while(float *data, int rounds) {
    int i = 0;
    do touch<<<4, 256>>>(data, 7, COUNT);
    while (++i < rounds);
}

PROGRAM counting_down(float *data, int rounds) {
    while (rounds-- > 0) touch<<<4, 256>>>(data, 7, COUNT);
}

PROGRAM up_to_and_including(float *data, int rounds) {
    for (int i = 1; i <= rounds; ++i) touch<<<4, 256>>>(data, 7, COUNT);
}

PROGRAM long_count(float *data, long rounds) {
    for (long i = 0; i != rounds; ++i) touch<<<4, 256>>>(data, 7, COUNT);
}

PROGRAM step_of_three(float *data, unsigned rounds) {
    for (unsigned i = 0; i < rounds; i += 3) touch<<<4, 256>>>(data, 7, COUNT);
}

// Memory operations only: nothing is launched.
PROGRAM memory_only(float *first, float *second, const float *host) {
    for (int i = 0; i < 12; ++i) {
        cudaMemset(first, 0, BYTES);
        cudaMemcpy(second, first, BYTES, cudaMemcpyDeviceToDevice);
        cudaMemcpy(first, host, BYTES, cudaMemcpyHostToDevice);
    }
}

PROGRAM two_kernels(float *first, float *second, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(first, 1, COUNT);
        shift<<<4, 256>>>(second, first, COUNT);
    }
}

// The longer kernel's array of parameters stands where the shorter one's does, once both are compiled into one function.
static __global__ void few(float *data, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) data[index] += 1;
}

static __global__ void many(float *to, const float *from, float factor, int offset, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) to[index] = factor * from[index] + offset;
}

PROGRAM few_and_many(float *first, float *second, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        few<<<4, 256>>>(first, COUNT);
        many<<<4, 256>>>(second, first, 0.5f, 3, COUNT);
    }
}

// One of the parameters lies elsewhere than in the frame.
static int offset_of_all = 3;

PROGRAM launched_by_hand(float *data, int rounds) {
    int count = COUNT;
    void *parameters[] = {&data, &offset_of_all, &count};
    for (int i = 0; i < rounds; ++i) cudaLaunchKernel((const void *)touch, 4, 256, parameters, 0, nullptr);
}

// More calls than a run-time search for repetitions looks at.
PROGRAM long_body(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
#define FIVE(n) touch<<<4, 256>>>(data, n, COUNT), touch<<<4, 256>>>(data, n + 1, COUNT), touch<<<4, 256>>>(data, n + 2, COUNT), \
                touch<<<4, 256>>>(data, n + 3, COUNT), touch<<<4, 256>>>(data, n + 4, COUNT)
        FIVE(0), FIVE(5), FIVE(10), FIVE(15), FIVE(20), FIVE(25);
    }
}

PROGRAM by_reference(float *const &data, const int &rounds) {
    for (int i = 0, end = rounds; i < end; ++i) touch<<<4, 256>>>(data, 7, COUNT);
}

// The device pointer is a local variable whose address cudaMalloc was given: it is read from memory in every iteration.
PROGRAM own_allocation(int rounds) {
    float *data;
    cudaMalloc(&data, BYTES);
    cudaMemset(data, 0, BYTES);
    for (int i = 0; i < rounds; ++i) touch<<<4, 256>>>(data, 7, COUNT);
    cudaFree(data);
}

// The loop's own I/O changes nothing that the calls need.
PROGRAM with_output(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, 7, COUNT);
        printf("round %d\n", i);
    }
}

PROGRAM left_by_table(float *data, const int *stop, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        if (stop[i]) break;
        touch<<<4, 256>>>(data, 7, COUNT);
    }
}

PROGRAM left_in_the_middle(float *data, int rounds, int limit) {
    for (int i = 0;; ++i) {
        touch<<<4, 256>>>(data, 7, COUNT);
        if (i == limit) break;
        cudaMemset(data, 0, BYTES);
        if (i == rounds) return;
    }
}

PROGRAM never_left(float *data) {
    for (;;) {
        touch<<<4, 256>>>(data, 7, COUNT);
        if (cudaGetLastError() != cudaSuccess) exit(1);
    }
}

CORPUS_MAIN

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    Arena arena;
    int stop[64] = {};
    stop[3] = 1;
    fixed_count(arena.a), variable_count(arena.a, rounds), do_while(arena.a, rounds), counting_down(arena.a, rounds);
    up_to_and_including(arena.a, rounds), long_count(arena.a, rounds), step_of_three(arena.a, rounds);
    memory_only(arena.a, arena.b, arena.host), two_kernels(arena.a, arena.b, rounds), long_body(arena.a, rounds);
    offset_of_all = rounds % 5, launched_by_hand(arena.a, rounds), few_and_many(arena.a, arena.b, rounds);
    by_reference(arena.a, rounds), own_allocation(rounds), with_output(arena.a, rounds);
    left_by_table(arena.a, stop, rounds), left_in_the_middle(arena.a, rounds, rounds / 2);
    if (rounds > 1 << 30) never_left(arena.a);
    return cudaDeviceSynchronize() != cudaSuccess;
}
