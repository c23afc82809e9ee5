// Loops that decide by arrays on the heap and in global variables, read with copies of one size.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>
#include "common.cuh"

int histogram[16], lengths[4] = {3, 1, 4, 1};
static double residuals[6];
static const float factors[8] = {1, 0.5, 0.25, 2, 4, 8, 0.125, 3};

PROGRAM(counts_in_a_vector) {
    std::vector<int> counts(16);
    int most = 0, k = 0;
    do {
        step<<<1 + most, 32>>>(x, f, most, k);
        cudaMemcpy(counts.data(), x, 16 * sizeof(int), cudaMemcpyDeviceToHost);
        most = 0;
        for (int i = 1; i < 16; ++i)
            if (counts[i] > counts[most]) most = i;
    } while (most != n && ++k < 60);
    LEFT;
}

PROGRAM(norm_of_parts) {
    double *parts = (double *)malloc(6 * sizeof(double)), norm = 1;
    int k = 0;
    while (norm > 1e-6 && k < 50) {
        step<<<1, 32>>>(x, f, (float)norm, norm);
        cudaMemcpy(parts, d, 6 * sizeof(double), cudaMemcpyDeviceToHost);
        double sum = 0;
        for (int i = 0; i < 6; ++i) sum += parts[i] * parts[i];
        norm = sqrt(sum);
        ++k;
    }
    free(parts);
    LEFT;
}

PROGRAM(centres_in_vectors) {
    std::vector<float> centres(6), sums(6);
    std::vector<int> counts(3);
    float moved;
    int k = 0;
    for (int i = 0; i < 6; ++i) centres[i] = 0.5f * i;
    do {
        cudaMemcpy(x, centres.data(), 6 * sizeof(float), cudaMemcpyHostToDevice);
        step<<<n, 64>>>(x, f, centres[2], k);
        cudaMemcpy(sums.data(), y, 6 * sizeof(float), cudaMemcpyDeviceToHost);
        cudaMemcpy(counts.data(), f, 3 * sizeof(int), cudaMemcpyDeviceToHost);
        moved = 0;
        for (int c = 0; c < 3; ++c) {
            if (!counts[c]) continue;
            for (int i = 0; i < 2; ++i) {
                float next = sums[2 * c + i] / counts[c];
                moved += fabsf(next - centres[2 * c + i]);
                centres[2 * c + i] = next;
            }
        }
    } while (moved > 1e-3f && ++k < 40);
    LEFT;
}

PROGRAM(sorted_on_the_heap) {
    std::unique_ptr<int[]> values(new int[8]);
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, k, n);
        cudaMemcpy(values.get(), f, 8 * sizeof(int), cudaMemcpyDeviceToHost);
        for (int i = 1; i < 8; ++i) {
            int value = values[i], j = i - 1;
            while (j >= 0 && values[j] > value) {
                values[j + 1] = values[j];
                --j;
            }
            values[j + 1] = value;
        }
        cudaMemcpy(f, values.get(), 8 * sizeof(int), cudaMemcpyHostToDevice);
    } while (values[3] != 4 && ++k < 30);
    LEFT;
}

__attribute__((noinline)) static float largest(const std::vector<float> &values) {
    return *std::max_element(values.begin(), values.end());
}

PROGRAM(largest_in_a_function) {
    std::vector<float> values(12);
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, k, n);
        cudaMemcpy(values.data(), x, 12 * sizeof(float), cudaMemcpyDeviceToHost);
    } while (largest(values) > 1 && ++k < 30);
    LEFT;
}

PROGRAM(global_histogram) {
    int most = 0, k = 0;
    do {
        step<<<1 + most, 32>>>(x, f, lengths[k & 3], most);
        cudaMemcpy(histogram, x, sizeof histogram, cudaMemcpyDeviceToHost);
        for (int i = 0; i < 16; ++i)
            if (histogram[i] > histogram[most]) most = i;
        histogram[most] = 0;
    } while (histogram[(most + 1) & 15] != n && ++k < 60);
    LEFT;
}

PROGRAM(global_residuals) {
    double norm = 1;
    for (int k = 0; norm > 1e-6 && k < 50; ++k) {
        step<<<1, 32>>>(x, f, factors[k & 7], norm);
        cudaMemcpy(residuals, d, sizeof residuals, cudaMemcpyDeviceToHost);
        norm = 0;
        for (int i = 0; i < 6; ++i) norm += fabs(residuals[i]);
    }
    LEFT;
}

PROGRAM(global_source) {
    int k = 0;
    do {
        lengths[k & 3] += k;
        cudaMemcpy(f, lengths, sizeof lengths, cudaMemcpyHostToDevice);
        step<<<1, 32>>>(x, f, k, lengths[(k + 1) & 3]);
        cudaMemcpy(lengths, f, sizeof lengths, cudaMemcpyDeviceToHost);
    } while (lengths[n & 3] != 7 && ++k < 40);
    LEFT;
}

// Tables of the host: no copy brings or carries them.
PROGRAM(table_in_a_vector) {
    std::vector<int> limits(12);
    for (int i = 0; i < 12; ++i) limits[i] = 3 * i + (i & 1);
    int found = 0, level = 0, k = 0;
    do {
        step<<<1 + limits[level], 32>>>(x, f, found, k);
        cudaMemcpy(&found, f, sizeof found, cudaMemcpyDeviceToHost);
        if ((found & 7) >= limits[level + 1] - limits[level]) level++;
    } while (level < 9 && ++k < 80);
    LEFT;
}

PROGRAM(table_kept_up) {
    unsigned *visits = (unsigned *)calloc(8, sizeof(unsigned)), found = 0, most = 0;
    do {
        step<<<1, 32>>>(x, f, most, visits[found & 7]);
        cudaMemcpy(&found, f, sizeof found, cudaMemcpyDeviceToHost);
        unsigned now = ++visits[found & 7];
        if (now > most) most = now;
    } while (most < 12);
    free(visits);
    LEFT;
}

PROGRAM(filled_and_copied) {
    int now[20] = {}, before[20], sums[36], k = 0;
    do {
        memcpy(before, now, sizeof before);
        memset(sums, 0, sizeof sums);
        cudaMemcpy(now, f, 40, cudaMemcpyDeviceToHost);
        sums[3] += now[1], sums[35] -= now[9];
        step<<<1 + (sums[3] & 3), 32>>>(x, f, before[3], sums[20] + sums[35]);
    } while ((now[4] & 7) != (before[4] & 7) + n && ++k < 60);
    LEFT;
}

PROGRAM(counted_by_a_comparison) {
    unsigned found = 1, below = 0, k = 0;
    do {
        step<<<1, 32>>>(x, f, below, k);
        cudaMemcpy(&found, f, sizeof found, cudaMemcpyDeviceToHost);
        below += found < 0x60000000u;
        k += below < 11;
    } while (below < 11 && k < 60);
    LEFT;
}

int main() {
    float *x, *y;
    int *f;
    double *d;
    cudaMalloc(&x, 4096), cudaMalloc(&y, 4096), cudaMalloc(&f, 64), cudaMalloc(&d, 64);
#define RUN(name) name(x, y, f, d, 3), LEFT;
    RUN(counts_in_a_vector) RUN(norm_of_parts) RUN(centres_in_vectors) RUN(sorted_on_the_heap) RUN(largest_in_a_function)
    RUN(global_histogram) RUN(global_residuals) RUN(global_source)
    RUN(table_in_a_vector) RUN(table_kept_up) RUN(filled_and_copied) RUN(counted_by_a_comparison)
}
