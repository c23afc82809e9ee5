// The eigenvalue's change ends the loop; the norm goes back as a kernel's argument.
#include "common.cuh"

__global__ void multiply(const double *a, const double *x, double *y, int n) {
    int i = threadIdx.x;
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += a[i * n + j] * x[j];
    y[i] = sum;
}
__global__ void norm2(const double *y, double *result, int n) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += y[i] * y[i];
    *result = sum;
}
__global__ void scale(const double *y, double *x, double by) {
    x[threadIdx.x] = y[threadIdx.x] * by;
}

int main() {
    const int n = 32;
    std::vector<double> a(n * n), x(n, 1);
    for (int i = 0; i < n * n; ++i) a[i] = 1.0 / (1 + i / n + i % n);
    double *d_a = on_device<double>(n * n), *d_x = on_device<double>(n), *d_y = on_device<double>(n);
    double *d_norm = on_device<double>(1), lambda = 0, before, norm;
    CHECK(cudaMemcpy(d_a, a.data(), n * n * 8, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_x, x.data(), n * 8, cudaMemcpyHostToDevice));
    int iteration = 0;
    do {
        before = lambda;
        multiply<<<1, n>>>(d_a, d_x, d_y, n);
        norm2<<<1, 1>>>(d_y, d_norm, n);
        CHECK(cudaMemcpy(&norm, d_norm, sizeof norm, cudaMemcpyDeviceToHost));
        lambda = sqrt(norm);
        scale<<<1, n>>>(d_y, d_x, 1 / lambda);
    } while (fabs(lambda - before) > 1e-9 * lambda && ++iteration < 1000);
    printf("%d %.12f\n", iteration, lambda);
}
