// Device data decides: when the loop ends, what it calls, with which arguments.
#include "common.cuh"

#include <cmath>

static __global__ void decide(int *flag, int *counter, int limit) { *flag = ++*counter < limit; }
static __global__ void shrink(float *error) { *error *= 0.25f; }

PROGRAM by_flag(float *data, int *flag, int *counter) {
    int go = 1;
    while (go) {
        touch<<<4, 256>>>(data, 1, COUNT);
        decide<<<1, 1>>>(flag, counter, 5);
        cudaMemcpy(&go, flag, sizeof go, cudaMemcpyDeviceToHost);
    }
}

// As in a breadth-first search: the flag is cleared from the host, set by the device.
PROGRAM until_settled(float *data, int *flag, int *counter) {
    int stop;
    do {
        stop = 0;
        cudaMemcpy(flag, &stop, sizeof stop, cudaMemcpyHostToDevice);
        touch<<<4, 256>>>(data, 1, COUNT);
        decide<<<1, 1>>>(flag, counter, 5);
        cudaMemcpy(&stop, flag, sizeof stop, cudaMemcpyDeviceToHost);
    } while (stop);
    // The optimizer knows the copied value here: 0, the counter's first.
    for (int i = 0; i < 4; ++i) touch<<<4, 256>>>(data, i, COUNT);
}

PROGRAM converging(float *data, float *error) {
    float left = 1;
    while (left > 1e-3f) {
        touch<<<4, 256>>>(data, 1, COUNT);
        shrink<<<1, 1>>>(error);
        cudaMemcpy(&left, error, sizeof left, cudaMemcpyDeviceToHost);
    }
}

PROGRAM converging_at_most(float *data, float *error, int rounds) {
    float left = 1;
    for (int i = 0; i < rounds && std::sqrt(left) > 1e-3f; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        shrink<<<1, 1>>>(error);
        cudaMemcpy(&left, error, sizeof left, cudaMemcpyDeviceToHost);
    }
}

PROGRAM left_on_device_data(float *data, int *flag, int *counter, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        int go;
        touch<<<4, 256>>>(data, i, COUNT);
        decide<<<1, 1>>>(flag, counter, 5);
        cudaMemcpy(&go, flag, sizeof go, cudaMemcpyDeviceToHost);
        if (!go) break;
    }
}

PROGRAM sent_back(float *data, int *device) {
    for (int i = 0; i < 20; ++i) {
        int value = 0;
        cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost);
        touch<<<4, 256>>>(data, value, COUNT);
    }
}

PROGRAM choosing(float *data, int *flag, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        int which;
        cudaMemcpy(&which, flag, sizeof which, cudaMemcpyDeviceToHost);
        if (which)
            touch<<<4, 256>>>(data, 1, COUNT);
        else
            cudaMemset(data, 0, BYTES);
    }
}

PROGRAM inner_count(float *data, int *device, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        int count;
        cudaMemcpy(&count, device, sizeof count, cudaMemcpyDeviceToHost);
        for (int j = 0; j < (count & 3); ++j) touch<<<4, 256>>>(data, j, COUNT);
    }
}

static __device__ int state;
static __global__ void advance() { ++state; }

PROGRAM by_symbol(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        int value;
        advance<<<1, 1>>>();
        cudaMemcpyFromSymbol(&value, state, sizeof value);
        touch<<<4, 256>>>(data, value, COUNT);
    }
}

// A number that no one knows beforehand, and none of the device's.
PROGRAM arbitrary(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) touch<<<4, 256>>>(data, rand(), COUNT);
}

PROGRAM arbitrary_count(float *data) {
    while (rand() % 5) touch<<<4, 256>>>(data, 1, COUNT);
}

PROGRAM host_state(float *data, int rounds) {
    unsigned state = 1;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, state & 15, COUNT);
        opaque(&state);
    }
}

// No way leads to a return.
PROGRAM ends_the_program(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    if (!host) exit(2);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        if (!data) {
            fprintf(stderr, "no data\n");
            exit(3);
        }
    }
    cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
    printf("%g\n", host[0]);
    for (int i = 0; i < 40; ++i) cudaMemset(data, 0, BYTES);
    free(host);
    exit(cudaDeviceSynchronize() != cudaSuccess);
}

static __global__ void take(int *left) { *left -= 1; }

// The last call stands behind what asks for the device's data, so that this asks for the next data before it is made again.
PROGRAM cleared_while_left(float *data, int *left, int rounds) {
    int held = rounds;
    cudaMemcpy(left, &held, sizeof held, cudaMemcpyHostToDevice);
    while (held > 0) {
        take<<<1, 1>>>(left);
        cudaMemcpy(&held, left, sizeof held, cudaMemcpyDeviceToHost);
        if (held > 0) touch<<<4, 256>>>(data, 1, COUNT);
    }
}

CORPUS_MAIN

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    Arena arena;
    int *flag = (int *)arena.b, *counter = flag + 1;
    float *error = arena.c;
    auto reset = [&] {
        float one = 1;
        cudaMemset(flag, 0, 8), cudaMemcpy(error, &one, sizeof one, cudaMemcpyHostToDevice);
    };
    cleared_while_left(arena.a, counter, rounds);
    reset(), by_flag(arena.a, flag, counter), reset(), until_settled(arena.a, flag, counter);
    converging(arena.a, error), reset(), converging_at_most(arena.a, error, rounds);
    left_on_device_data(arena.a, flag, counter, rounds), sent_back(arena.a, flag), choosing(arena.a, flag, rounds);
    inner_count(arena.a, counter, rounds), by_symbol(arena.a, rounds), srand(1), arbitrary(arena.a, rounds);
    arbitrary_count(arena.a), host_state(arena.a, rounds);
    ends_the_program(arena.a, rounds);
    return 1;
}
