// Class 3: arguments are results of earlier CUDA calls of the loop; streams and events.
#include "common.cuh"

PROGRAM allocating(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        float *fresh;
        cudaMalloc(&fresh, BYTES);
        touch<<<4, 256>>>(fresh, 1, COUNT);
        cudaFree(fresh);
    }
}

PROGRAM allocating_mixed(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        float *fresh;
        cudaMalloc(&fresh, BYTES);
        touch<<<4, 256>>>(fresh, i, COUNT);
        cudaFree(fresh);
    }
}

PROGRAM allocating_in_order(int rounds, cudaStream_t stream) {
    for (int i = 0; i < rounds; ++i) {
        float *fresh;
        cudaMallocAsync(&fresh, BYTES, stream);
        touch<<<4, 256, 0, stream>>>(fresh, 1, COUNT);
        cudaFreeAsync(fresh, stream);
    }
}

PROGRAM allocating_into_table(float **buffers, int count) {
    for (int i = 0; i < count; ++i) {
        cudaMalloc(&buffers[i], BYTES);
        cudaMemset(buffers[i], 0, BYTES);
    }
}

PROGRAM allocating_sizes(float **buffers, int count) {
    for (int i = 0; i < count; ++i) cudaMalloc(&buffers[i], BYTES * (i + 1));
}

PROGRAM freeing_table(float **buffers, int count) {
    for (int i = 0; i < count; ++i) cudaFree(buffers[i]);
}

PROGRAM own_stream(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        cudaStream_t stream;
        cudaStreamCreate(&stream);
        touch<<<4, 256, 0, stream>>>(data, 1, COUNT);
        cudaStreamDestroy(stream);
    }
}

PROGRAM own_event(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        cudaEvent_t event;
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
        touch<<<4, 256>>>(data, 1, COUNT);
        cudaEventRecord(event, 0);
        cudaEventDestroy(event);
    }
}

PROGRAM streams_made(cudaStream_t *streams, int count) {
    for (int i = 0; i < count; ++i) cudaStreamCreate(&streams[i]);
}

PROGRAM fork_and_join(float *data, cudaStream_t first, cudaStream_t second, cudaEvent_t forked, cudaEvent_t joined, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256, 0, first>>>(data, i, COUNT);
        cudaEventRecord(forked, first);
        cudaStreamWaitEvent(second, forked, 0);
        touch<<<4, 256, 0, second>>>(data, 2, COUNT);
        cudaEventRecord(joined, second);
        cudaStreamWaitEvent(first, joined, 0);
    }
}

// What a query answers is an argument of the next call.
PROGRAM asked(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        int device;
        cudaGetDevice(&device);
        touch<<<4, 256>>>(data, device, COUNT);
    }
}

// The streams are made anew in each iteration, and stand in a table of the called function.
static APART void over_own_table(float *data, int count) {
    cudaStream_t streams[8];
    for (int i = 0; i < count; ++i) cudaStreamCreate(&streams[i]);
    for (int i = 0; i < count; ++i) touch<<<4, 256, 0, streams[i]>>>(data, i, COUNT);
    for (int i = 0; i < count; ++i) cudaStreamDestroy(streams[i]);
}

PROGRAM streams_in_table(float *data, int count, int rounds) {
    for (int i = 0; i < rounds; ++i) over_own_table(data, count);
}

// One of them is what the host chose.
static APART void over_table_of_others(float *data, int count) {
    cudaStream_t streams[8];
    for (int i = 0; i < count; ++i) cudaStreamCreate(&streams[i]);
    cudaStreamDestroy(streams[count - 1]);
    streams[count - 1] = rand() % 2 ? streams[0] : nullptr;
    for (int i = 0; i < count; ++i) touch<<<4, 256, 0, streams[i]>>>(data, i, COUNT);
    for (int i = 0; i + 1 < count; ++i) cudaStreamDestroy(streams[i]);
}

PROGRAM streams_in_table_of_others(float *data, int count, int rounds) {
    for (int i = 0; i < rounds; ++i) over_table_of_others(data, count);
}

CORPUS_MAIN

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    Arena arena;
    float *buffers[8];
    cudaStream_t streams[2];
    cudaEvent_t events[2];
    cudaEventCreate(&events[0]), cudaEventCreate(&events[1]);
    allocating(rounds), allocating_mixed(rounds), allocating_in_order(rounds, nullptr), allocating_into_table(buffers, 8);
    freeing_table(buffers, 8), allocating_sizes(buffers, 8), freeing_table(buffers, 8), own_stream(arena.a, rounds);
    own_event(arena.a, rounds), streams_made(streams, 2);
    fork_and_join(arena.a, streams[0], streams[1], events[0], events[1], rounds), asked(arena.a, rounds);
    streams_in_table(arena.a, 3, rounds), streams_in_table_of_others(arena.a, 3, rounds);
    return cudaDeviceSynchronize() != cudaSuccess;
}
