// Arrays on the heap and in global variables, and what stands in the way of a slice. Where a build has one all the same, it must be
// right, or stop.
#include <cstring>
#include <iostream>
#include <utility>
#include <vector>
#include "common.cuh"

int *kept, *global_block, table[8] = {1, 2, 3, 4, 5, 6, 7, 8}, seen;
#define OPAQUE __attribute__((noinline, noipa))

OPAQUE void touch() { if (kept) kept[1] = 0; }

PROGRAM(block_kept) {
    int *values = (int *)malloc(32), k = 0;
    kept = values;
    do {
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(values, f, 32, cudaMemcpyDeviceToHost);
        touch();
    } while (values[1] && ++k < 30);
    kept = nullptr;
    LEFT;
}

PROGRAM(block_kept_inside) {
    int *values = (int *)malloc(32), k = 0;
    do {
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(values, f, 32, cudaMemcpyDeviceToHost);
        touch();
        kept = values;
    } while (values[1] && ++k < 30);
    kept = nullptr;
    LEFT;
}

PROGRAM(block_of_a_global) {
    int k = 0;
    global_block = (int *)malloc(32);
    do {
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(global_block, f, 32, cudaMemcpyDeviceToHost);
    } while (global_block[1] && ++k < 30);
    LEFT;
}

OPAQUE static void given_block(float *x, int *f, int *values) {
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(values, f, 32, cudaMemcpyDeviceToHost);
    } while (values[1] && ++k < 30);
    LEFT;
}
PROGRAM(block_of_the_caller) { std::vector<int> values(8); given_block(x, f, values.data()); }

PROGRAM(one_of_two_blocks) {
    int *one = (int *)malloc(32), *other = (int *)malloc(32), *values = n > 2 ? one : other, k = 0;
    memset(one, 1, 32), memset(other, 1, 32);
    do {
        step<<<1, 32>>>(x, f, k, one[2]);
        cudaMemcpy(values, f, 32, cudaMemcpyDeviceToHost);
        values[2] = k;
    } while (one[1] && other[1] && ++k < 30);
    LEFT;
}

PROGRAM(two_sizes) {
    int *values = (int *)malloc(64), k = 0;
    do {
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(values, f, 32, cudaMemcpyDeviceToHost);
        cudaMemcpy(values + 8, f, 16, cudaMemcpyDeviceToHost);
    } while (values[1] && values[9] && ++k < 30);
    LEFT;
}

PROGRAM(grows) {
    std::vector<int> values(8);
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(values.data(), f, 32, cudaMemcpyDeviceToHost);
        values.push_back(values[1]);
    } while (values[k & 7] && ++k < 30);
    LEFT;
}

PROGRAM(filled_by_a_function) {
    int *values = (int *)malloc(32), k = 0;
    do {
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(values, f, 32, cudaMemcpyDeviceToHost);
        memset(values + 1, k & 1, n);
    } while (values[1] && ++k < 30);
    LEFT;
}

PROGRAM(freed_and_new) {
    int k = 0, last = 1;
    int *values = (int *)malloc(32);
    do {
        step<<<1, 32>>>(x, f, k, last);
        cudaMemcpy(values, f, 32, cudaMemcpyDeviceToHost);
        last = values[1];
        free(values);
        values = (int *)malloc(32);
        values[1] = last + k;
    } while (values[1] && ++k < 30);
    LEFT;
}

PROGRAM(blocks_of_one_allocation) {
    int *blocks[3], k = 0;
    for (int i = 0; i < n; ++i) blocks[i] = (int *)calloc(8, 4);
    do {
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(blocks[k & 1], f, 32, cudaMemcpyDeviceToHost);
        blocks[1][2] += k;
    } while (blocks[0][1] != 7 && blocks[1][2] != 7 && ++k < 30);
    LEFT;
}

PROGRAM(moving_destination) {
    int *values = (int *)calloc(16, 4), k = 0;
    do {
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(values + (k & 3), f, 16, cudaMemcpyDeviceToHost);
    } while (values[3] != 7 && ++k < 30);
    LEFT;
}

PROGRAM(moving_source) {
    int *values = (int *)calloc(16, 4), k = 0, flag;
    do {
        values[k & 15] = k;
        cudaMemcpy(f, values + (k & 3), 16, cudaMemcpyHostToDevice);
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag != 7 && ++k < 30);
    LEFT;
}

PROGRAM(rotating_blocks) {
    std::vector<float> one(8), other(8);
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, k, other[1]);
        cudaMemcpy(one.data(), x, 32, cudaMemcpyDeviceToHost);
        std::swap(one, other);
    } while (other[2] != 0 && ++k < 30);
    LEFT;
}

PROGRAM(beyond_a_block) {
    int *values = (int *)calloc(64, 4), kind = 0, k = 0;
    do {
        step<<<1, 32>>>(x, f, k, values[kind & 15]);
        cudaMemcpy(values + 4, f, 32, cudaMemcpyDeviceToHost);
        cudaMemcpy(&kind, f, sizeof kind, cudaMemcpyDeviceToHost);
    } while (kind != 7 && ++k < 30);
    LEFT;
}

PROGRAM(global_written_elsewhere) {
    int k = 0;
    int *other = n > 2 ? table + 3 : &seen;
    do {
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(table, f, sizeof table, cudaMemcpyDeviceToHost);
        memset(other, k & 1, n);
    } while (table[n] && ++k < 30);
    LEFT;
}

// Another block in each iteration, full of zeros.
PROGRAM(table_made_in_the_loop) {
    int found = 1, k = 0;
    do {
        int *table = (int *)calloc(16, 4);
        table[found & 15] += 3;
        step<<<1, 32>>>(x, f, table[k & 15], 1);
        cudaMemcpy(&found, f, sizeof found, cudaMemcpyDeviceToHost);
    } while ((found & 7) != n && ++k < 30);
    LEFT;
}

PROGRAM(table_given_away) {
    int *table = (int *)calloc(16, 4), found = 1, k = 0;
    kept = table;
    do {
        step<<<1, 32>>>(x, f, table[found & 15], 1);
        cudaMemcpy(&found, f, sizeof found, cudaMemcpyDeviceToHost);
        touch();
    } while ((found & 7) != n && ++k < 30);
    kept = nullptr;
    LEFT;
}

PROGRAM(table_filled_as_far_as_told) {
    int *table = (int *)calloc(16, 4), found = 1, k = 0;
    do {
        step<<<1, 32>>>(x, f, table[found & 15], 1);
        cudaMemcpy(&found, f, sizeof found, cudaMemcpyDeviceToHost);
        memset(table, found, found & 63);
    } while ((found & 7) != n && ++k < 30);
    LEFT;
}

PROGRAM(table_under_a_copy) {
    int *table = (int *)calloc(16, 4), found = 1, k = 0;
    do {
        step<<<1, 32>>>(x, f, table[found & 15], 1);
        cudaMemcpy(&found, f, sizeof found, cudaMemcpyDeviceToHost);
        cudaMemcpy(table, f, 4 * (found & 7) + 4, cudaMemcpyDeviceToHost);
    } while ((found & 7) != n && ++k < 30);
    LEFT;
}

// std::endl asks the stream for its character type where it is compiled into the loop.
PROGRAM(ends_lines) {
    int found = 1, k = 0;
    do {
        step<<<1, 32>>>(x, f, k, 1);
        cudaMemcpy(&found, f, sizeof found, cudaMemcpyDeviceToHost);
        std::cout << "iteration " << k << ": " << found << std::endl;
    } while ((found & 3) != n && ++k < 40);
    LEFT;
}

int main() {
    float *x, *y;
    int *f;
    double *d;
    cudaMalloc(&x, 4096), cudaMalloc(&y, 4096), cudaMalloc(&f, 64), cudaMalloc(&d, 64);
#define RUN(name) name(x, y, f, d, 3), LEFT;
    RUN(block_kept) RUN(block_kept_inside) RUN(block_of_a_global) RUN(block_of_the_caller) RUN(one_of_two_blocks) RUN(two_sizes)
    RUN(grows) RUN(filled_by_a_function) RUN(freed_and_new) RUN(blocks_of_one_allocation) RUN(moving_destination) RUN(moving_source)
    RUN(rotating_blocks) RUN(beyond_a_block) RUN(global_written_elsewhere)
    RUN(table_made_in_the_loop) RUN(table_given_away) RUN(table_filled_as_far_as_told) RUN(table_under_a_copy) RUN(ends_lines)
}
