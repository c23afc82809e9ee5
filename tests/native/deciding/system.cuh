// What the solvers of this folder share: kernels on vectors and on the five-point Laplacian of a square, and
// their system.
#pragma once

#include "../support.cuh"

constexpr int BLOCK = 128;

// y = A x, where A has `diagonal` on its diagonal and -1 for each neighbour in the square.
__global__ void multiply(const double *x, double *y, double diagonal, int side) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= side * side) {
        return;
    }
    int column = i % side, row = i / side;
    double sum = diagonal * x[i];
    if (row > 0) sum -= x[i - side];
    if (column > 0) sum -= x[i - 1];
    if (column < side - 1) sum -= x[i + 1];
    if (row < side - 1) sum -= x[i + side];
    y[i] = sum;
}

// One block, so that the order of additions, and with it the result, is always the same.
__global__ void dot(const double *a, const double *b, double *result, int n) {
    __shared__ double shared[BLOCK];
    double sum = 0.0;
    for (int i = threadIdx.x; i < n; i += BLOCK) {
        sum += a[i] * b[i];
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int width = BLOCK / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) {
            shared[threadIdx.x] += shared[threadIdx.x + width];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *result = shared[0];
    }
}

__global__ void add_scaled(double *y, const double *x, double factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] += factor * x[i];
    }
}

__global__ void scale_add(double *y, const double *x, double factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] + factor * y[i];
    }
}

// The solution that is looked for, and the right side that belongs to it.
inline std::vector<double> chosen_solution(int n) {
    Random random(23);
    std::vector<double> solution(n);
    for (double &value : solution) {
        value = random.real() * 2.0 - 1.0;
    }
    return solution;
}

inline std::vector<double> right_side(const std::vector<double> &x, double diagonal, int side) {
    std::vector<double> y(x.size());
    for (int i = 0; i < side * side; ++i) {
        int column = i % side, row = i / side;
        double sum = diagonal * x[i];
        if (row > 0) sum -= x[i - side];
        if (column > 0) sum -= x[i - 1];
        if (column < side - 1) sum -= x[i + 1];
        if (row < side - 1) sum -= x[i + side];
        y[i] = sum;
    }
    return y;
}
