// Loops that decide by arrays of their own: with loops inside that call nothing, and elements at computed places.
#include "common.cuh"

PROGRAM(most_frequent) {
    int counts[16], most = 0, k = 0;
    do {
        step<<<1 + most, 32>>>(x, f, most, k);
        cudaMemcpy(counts, x, sizeof counts, cudaMemcpyDeviceToHost);
        most = 0;
        for (int i = 1; i < 16; ++i)
            if (counts[i] > counts[most]) most = i;
    } while (most != n && ++k < 60);
    LEFT;
}

PROGRAM(norm_of_parts) {
    double parts[6], norm = 1;
    int k = 0;
    while (norm > 1e-6 && k < 50) {
        step<<<1, 32>>>(x, f, (float)norm, norm);
        cudaMemcpy(parts, d, sizeof parts, cudaMemcpyDeviceToHost);
        double sum = 0;
        for (int i = 0; i < 6; ++i) sum += parts[i] * parts[i];
        norm = sqrt(sum);
        ++k;
    }
    LEFT;
}

PROGRAM(centres_of_clusters) {
    float centres[6] = {0, 1, 2, 3, 4, 5}, sums[6], moved;
    int counts[3], k = 0;
    do {
        cudaMemcpy(x, centres, sizeof centres, cudaMemcpyHostToDevice);
        step<<<n, 64>>>(x, f, centres[2], k);
        cudaMemcpy(sums, y, sizeof sums, cudaMemcpyDeviceToHost);
        cudaMemcpy(counts, f, sizeof counts, cudaMemcpyDeviceToHost);
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

PROGRAM(last_errors) {
    double last[4] = {1, 1, 1, 1}, error = 1, mean = 1;
    for (int k = 0; mean > 1e-4 && k < 60; ++k) {
        step<<<1, 32>>>(x, f, (float)mean, error);
        cudaMemcpy(&error, d, sizeof error, cudaMemcpyDeviceToHost);
        last[k & 3] = fabs(error);
        mean = 0.25 * (last[0] + last[1] + last[2] + last[3]);
    }
    LEFT;
}

PROGRAM(sorted_by_insertion) {
    int values[8], k = 0;
    do {
        step<<<1, 32>>>(x, f, k, n);
        cudaMemcpy(values, f, sizeof values, cudaMemcpyDeviceToHost);
        for (int i = 1; i < 8; ++i) {
            int value = values[i], j = i - 1;
            while (j >= 0 && values[j] > value) {
                values[j + 1] = values[j];
                --j;
            }
            values[j + 1] = value;
        }
        cudaMemcpy(f, values, sizeof values, cudaMemcpyHostToDevice);
    } while (values[3] != 4 && ++k < 30);
    LEFT;
}

PROGRAM(digits) {
    unsigned value = 77, sum;
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, value, k);
        cudaMemcpy(&value, f, sizeof value, cudaMemcpyDeviceToHost);
        sum = 0;
        for (unsigned rest = value; rest; rest /= 10) sum += rest % 10;
    } while (sum % 9 != 4 && ++k < 60);
    LEFT;
}

PROGRAM(shifted_constant) {
    unsigned char high = 127;
    long low = 10;
    int value = 1, k = 0;
    do {
        step<<<1, 32>>>(x, f, low >= (long)((unsigned long)high << 5) ? 1 : value, high << 2);
        cudaMemcpy(&value, f, sizeof value, cudaMemcpyDeviceToHost);
    } while (value > 1 && ++k < 30);
    LEFT;
}

PROGRAM(rounded) {
    double value = 1;
    float single = 1;
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, floorf(single), floor(value));
        step<<<1, 32>>>(x, f, ceilf(single), ceil(value));
        step<<<1, 32>>>(x, f, truncf(single), trunc(value));
        step<<<1, 32>>>(x, f, rintf(single), rint(value));
        step<<<1, 32>>>(x, f, nearbyintf(-single), nearbyint(-value));
        step<<<1, 32>>>(x, f, copysignf(2, single), copysign(value, single));
        cudaMemcpy(&value, d, sizeof value, cudaMemcpyDeviceToHost);
        cudaMemcpy(&single, x, sizeof single, cudaMemcpyDeviceToHost);
        value *= 3.7;
    } while (floor(value) != 5 && ++k < 60);
    LEFT;
}

int main() {
    float *x, *y;
    int *f;
    double *d;
    cudaMalloc(&x, 4096), cudaMalloc(&y, 4096), cudaMalloc(&f, 64), cudaMalloc(&d, 64);
#define RUN(name) name(x, y, f, d, 3), LEFT;
    RUN(most_frequent) RUN(norm_of_parts) RUN(centres_of_clusters) RUN(last_errors) RUN(sorted_by_insertion) RUN(digits) RUN(shifted_constant) RUN(rounded)
}
