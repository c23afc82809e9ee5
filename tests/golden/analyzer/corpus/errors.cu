// Error codes: dropped, compared with success, wrapped, counted, thrown, kept.
#include "common.cuh"

#include <stdexcept>

#define CHECK(call)                                                      \
    do {                                                                 \
        cudaError_t code = (call);                                       \
        if (code != cudaSuccess) {                                       \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(code)); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

PROGRAM dropped(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaDeviceSynchronize();
    }
}

PROGRAM checked(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
    }
}

static void check(cudaError_t code, const char *what, const char *file, int line) {
    if (code == cudaSuccess) return;
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, cudaGetErrorString(code));
    cudaDeviceReset();
    exit(EXIT_FAILURE);
}
#define WRAPPED(call) check((call), #call, __FILE__, __LINE__)

PROGRAM wrapped(float *data, const float *host, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        WRAPPED(cudaMemcpy(data, host, BYTES, cudaMemcpyHostToDevice));
        touch<<<4, 256>>>(data, i, COUNT);
        WRAPPED(cudaGetLastError());
        WRAPPED(cudaDeviceSynchronize());
    }
}

static APART void check_apart(cudaError_t code) {
    if (code == cudaSuccess) return;
    fprintf(stderr, "%s\n", cudaGetErrorString(code));
    exit(EXIT_FAILURE);
}

PROGRAM wrapped_apart(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        check_apart(cudaDeviceSynchronize());
    }
}

// Prints, and goes on: the failure is observed, by whoever reads the output.
static APART void complain(cudaError_t code) {
    if (code != cudaSuccess) printf("it failed: %s\n", cudaGetErrorString(code));
}

PROGRAM complaining(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        complain(cudaDeviceSynchronize());
    }
}

PROGRAM counted(float *data, int rounds) {
    int bad = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        bad += cudaDeviceSynchronize() != cudaSuccess;
    }
    sink = bad;
}

static APART void check_throwing(cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

PROGRAM throwing(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        check_throwing(cudaDeviceSynchronize());
    }
}

// The exception is caught in the loop: the next iteration runs after a failure.
PROGRAM throwing_and_catching(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        try {
            check_throwing(cudaDeviceSynchronize());
        } catch (const std::exception &error) {
            printf("%s\n", error.what());
        }
    }
}

extern "C" APART bool returning(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        if (cudaGetLastError() != cudaSuccess) return false;
    }
    return true;
}

PROGRAM breaking(float *data, int rounds) {
    cudaError_t last = cudaSuccess;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        if ((last = cudaDeviceSynchronize()) != cudaSuccess) break;
    }
    sink = last;
}

// The last code is looked at behind the loop.
PROGRAM kept(float *data, int rounds) {
    cudaError_t last = cudaSuccess;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        last = cudaDeviceSynchronize();
    }
    sink = last;
}

PROGRAM combined(float *data, int rounds) {
    int all = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        all |= cudaDeviceSynchronize();
    }
    sink = all;
}

PROGRAM stored(float *data, cudaError_t *codes, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        codes[i] = cudaDeviceSynchronize();
    }
}

// The code is an argument of the next launch.
PROGRAM as_argument(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        int code = cudaDeviceSynchronize();
        touch<<<4, 256>>>(data, code, COUNT);
    }
}

// Anything but one particular failure is well.
PROGRAM particular(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        if (cudaDeviceSynchronize() == cudaErrorMemoryAllocation) cudaMemset(data, 0, BYTES);
    }
}

// A second chance: the failure is handled by other calls.
PROGRAM retrying(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        if (cudaDeviceSynchronize() != cudaSuccess) cudaMemset(data, 0, BYTES);
    }
}

PROGRAM reading_errors(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaGetLastError();
        cudaPeekAtLastError();
    }
}

PROGRAM named(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    }
}

PROGRAM assured(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        if (cudaDeviceSynchronize() != cudaSuccess) abort();
    }
}

CORPUS_MAIN

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    Arena arena;
    float *data = arena.a;
    cudaError_t codes[64];
    dropped(data, rounds), checked(data, rounds), wrapped(data, arena.host, rounds), wrapped_apart(data, rounds);
    complaining(data, rounds), counted(data, rounds), throwing(data, rounds), throwing_and_catching(data, rounds);
    returning(data, rounds), breaking(data, rounds), kept(data, rounds), combined(data, rounds), stored(data, codes, rounds);
    as_argument(data, rounds), particular(data, rounds), retrying(data, rounds), reading_errors(data, rounds);
    named(data, rounds), assured(data, rounds);
    return cudaDeviceSynchronize() != cudaSuccess;
}
