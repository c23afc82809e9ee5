// Elimination with partial pivoting: the pivot's row of each column comes back, rows are swapped where it differs.
#include "common.cuh"

__global__ void pivot(const double *matrix, int column, int n, int *row) {
    int best = column;
    for (int i = column + 1; i < n; ++i)
        if (fabs(matrix[i * n + column]) > fabs(matrix[best * n + column])) best = i;
    *row = best;
}

__global__ void swap_rows(double *matrix, int first, int second, int n) {
    int j = threadIdx.x;
    double kept = matrix[first * n + j];
    matrix[first * n + j] = matrix[second * n + j], matrix[second * n + j] = kept;
}

__global__ void eliminate(double *matrix, int column, int n) {
    int i = column + 1 + threadIdx.x;
    if (i >= n) return;
    double by = matrix[i * n + column] / matrix[column * n + column];
    for (int j = column; j < n; ++j) matrix[i * n + j] -= by * matrix[column * n + j];
}

int main() {
    const int n = 24;
    double *matrix = new double[n * n], *d_matrix = on_device<double>(n * n), determinant = 1;
    int *d_row = on_device<int>(1), sign = 1;
    for (int i = 0; i < n * n; ++i) matrix[i] = ((i * 31) % 17) - 7 + (i % (n + 1) == 0 ? 3 : 0);
    CHECK(cudaMemcpy(d_matrix, matrix, n * n * sizeof(double), cudaMemcpyHostToDevice));
    for (int k = 0; k < n - 1; ++k) {
        int row;
        pivot<<<1, 1>>>(d_matrix, k, n, d_row);
        CHECK(cudaMemcpy(&row, d_row, sizeof(int), cudaMemcpyDeviceToHost));
        if (row != k) {
            swap_rows<<<1, n>>>(d_matrix, k, row, n);
            sign = -sign;
        }
        eliminate<<<1, n - k - 1>>>(d_matrix, k, n);
    }
    CHECK(cudaMemcpy(matrix, d_matrix, n * n * sizeof(double), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) determinant *= matrix[i * n + i];
    printf("%g\n", sign * determinant);
    delete[] matrix;
}
