// Several launches in an iteration: what the later ones are passed is told at the first, or is not.
#include "common.cuh"

struct Part {
    float *data;
    int from, count;
};

static __global__ void widths(float *data, char small, short offset, long index, double factor, unsigned char flag) {
    int at = int(index) + offset;
    if (threadIdx.x == 0 && flag && at >= 0 && at < COUNT) data[at] += float(factor) * small;
}

static __global__ void of_part(Part part) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < part.count) part.data[part.from + index] += 1;
}

static __global__ void without() {}

static float *kept;
static int kept_count;

// Told.

PROGRAM two_of_them(float *first, float *second, int rounds, int offset) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(first, offset, COUNT);
        shift<<<2, 128>>>(second, first, offset);
    }
}

PROGRAM moving(float *first, float *second, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(first + i, i, COUNT - i);
        shift<<<4, 256>>>(second + 2 * i, first + i, 3 * i - 5);
    }
}

PROGRAM three_of_them(float *first, float *second, float *third, int rounds, float factor, cudaStream_t stream, int shared) {
    for (int i = rounds; i > 0; --i) {
        scale<<<4, 256, 0, stream>>>(first, factor, COUNT);
        shift<<<4, 256, shared, stream>>>(second, first, i);
        scale<<<4, 256, shared + 64, stream>>>(third, factor, i + 7);
    }
}

PROGRAM no_parameters(int rounds, int blocks) {
    for (int i = 0; i < rounds; ++i) {
        without<<<1, 32>>>();
        without<<<blocks, 32>>>();
    }
}

PROGRAM configured(float *first, float *second, int rounds, int width, int height) {
    dim3 grid((width + 15) / 16, (height + 7) / 8), block(16, 8);
    for (int i = 0; i < rounds; ++i) {
        touch<<<grid, block>>>(first, 1, width);
        shift<<<dim3(width, height, 2), dim3(height)>>>(second, first, height);
    }
}

PROGRAM of_all_widths(float *data, int rounds, char small, short offset, double factor, unsigned char flag) {
    for (long i = 1; i <= rounds; i += 3) {
        touch<<<4, 256>>>(data, 1, COUNT);
        widths<<<1, 32>>>(data, small, offset, i, factor, flag);
        widths<<<1, 32>>>(data, small, offset, 8 * i + 1, factor, 1);
    }
}

PROGRAM in_global_memory(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        without<<<1, 32>>>();
        touch<<<4, 256>>>(kept, kept_count, COUNT);
    }
}

PROGRAM in_a_nest(float *first, float *second, int rounds, int inner) {
    for (int i = 0; i < rounds; ++i)
        for (int j = 0; j < inner; ++j) {
            touch<<<4, 256>>>(first, i, COUNT);
            shift<<<4, 256>>>(second + i, first + j, i);
        }
}

PROGRAM do_while_of_two(float *data, unsigned rounds) {
    unsigned left = rounds + 1;
    do {
        touch<<<4, 256>>>(data, 1, COUNT);
        touch<<<4, 256>>>(data, 2, int(left));
    } while (--left);
}

PROGRAM with_the_hosts_work(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        sink = sink + i;
        touch<<<4, 256>>>(data, i + 1, COUNT);
    }
}

PROGRAM with_checks(float *first, float *second, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(first, i, COUNT);
        if (cudaGetLastError() != cudaSuccess) exit(3);
        shift<<<4, 256>>>(second, first, i);
        if (cudaDeviceSynchronize() != cudaSuccess) exit(4);
    }
}

// Known at the entry, and not told.

// The manifest's code follows no pointers.
PROGRAM through_pointers(const Part *part, float *const *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(*data, part->from, COUNT);
        touch<<<4, 256>>>(part->data, part->from, part->count);
    }
}

// Nor does it compute with floating-point numbers: told where the compiler computes before the loop.
PROGRAM of_a_sum(float *data, int rounds, float factor) {
    for (int i = 0; i < rounds; ++i) {
        scale<<<4, 256>>>(data, factor, COUNT);
        scale<<<4, 256>>>(data, factor + 1, COUNT);
    }
}

PROGRAM alone(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) touch<<<4, 256>>>(data, i, COUNT);
}

PROGRAM with_a_copy(float *first, float *second, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(first, i, COUNT);
        cudaMemcpyAsync(second, first, BYTES, cudaMemcpyDeviceToDevice);
        touch<<<4, 256>>>(second, i, COUNT);
    }
}

// Of a structure its first bytes may be taken for all of it; the shim knows how long a parameter is.
PROGRAM of_a_structure(float *data, int rounds, int count) {
    Part part{data, 3, count};
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        of_part<<<4, 256>>>(part);
    }
}

PROGRAM growing_grid(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        touch<<<i + 1, 256>>>(data, i, COUNT);
    }
}

PROGRAM squares(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        touch<<<4, 256>>>(data, i * i, COUNT);
    }
}

// Not even known at the entry.

PROGRAM one_of_them_at_times(float *data, const int *table, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        if (table[i & 63]) touch<<<4, 256>>>(data, 1, COUNT);
    }
}

PROGRAM written_in_between(float *data, volatile int *cell, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        *cell = *cell + i;
        touch<<<4, 256>>>(data, *cell, COUNT);
    }
}

PROGRAM swapped(float *first, float *second, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(first, 1, COUNT);
        shift<<<4, 256>>>(second, first, COUNT);
        float *other = first;
        first = second, second = other;
    }
}

// The loop around has a launch of its own behind a loop of launches.
PROGRAM around_another(float *first, float *second, int rounds, int inner) {
    for (int i = 0; i < rounds; ++i) {
        for (int j = 0; j < inner; ++j) touch<<<4, 256>>>(first, j, COUNT);
        shift<<<4, 256>>>(second, first, i);
    }
}

CORPUS_MAIN

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    Arena arena;
    int table[64] = {0, 1};
    volatile int cell = 3;
    Part part{arena.b, 2, 77};
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    kept = arena.c, kept_count = rounds + 40;
    two_of_them(arena.a, arena.b, rounds, 300), moving(arena.a, arena.b, rounds);
    three_of_them(arena.a, arena.b, arena.c, rounds, 0.5f, stream, 128), no_parameters(rounds, 3);
    configured(arena.a, arena.b, rounds, 100, 24), of_all_widths(arena.a, 3 * rounds, -3, -1, 0.25, 200);
    in_global_memory(rounds), through_pointers(&part, &arena.c, rounds), in_a_nest(arena.a, arena.b, rounds, 5);
    do_while_of_two(arena.a, rounds), with_the_hosts_work(arena.a, rounds), alone(arena.a, rounds);
    with_a_copy(arena.a, arena.b, rounds), of_a_structure(arena.a, rounds, 90), growing_grid(arena.a, rounds);
    squares(arena.a, rounds), one_of_them_at_times(arena.a, table, rounds), written_in_between(arena.a, &cell, rounds);
    swapped(arena.a, arena.b, rounds), around_another(arena.a, arena.b, rounds, 3);
    of_a_sum(arena.a, rounds, 0.5f), with_checks(arena.a, arena.b, rounds);
    cudaStreamDestroy(stream);
    return cudaDeviceSynchronize() != cudaSuccess;
}
