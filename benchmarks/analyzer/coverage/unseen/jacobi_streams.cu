// Jacobi on a stream: two vectors by turns, a sum copied asynchronously, broken off below a bound.
#include "common.cuh"

__global__ void step(const float *A, const double *b, float bound, const double *x, double *x_new, double *sum, int n) {
    int row = threadIdx.x;
    if (row >= n) return;
    double found = b[row];
    for (int column = 0; column < n; ++column)
        if (column != row) found -= A[row * n + column] * x[column];
    x_new[row] = found / A[row * n + row];
    atomicAdd(sum, fabs(x_new[row] - x[row]));
}

__attribute__((noinline)) double solve(const float *A, const double *b, float bound, int most, double *x, double *x_new,
                                       cudaStream_t stream, int n) {
    double sum = 0.0, *d_sum = nullptr;
    CHECK(cudaMalloc(&d_sum, sizeof(double)));
    int k = 0;
    for (k = 0; k < most; k++) {
        CHECK(cudaMemsetAsync(d_sum, 0, sizeof(double), stream));
        if ((k & 1) == 0) step<<<1, 64, 0, stream>>>(A, b, bound, x, x_new, d_sum, n);
        else step<<<1, 64, 0, stream>>>(A, b, bound, x_new, x, d_sum, n);
        CHECK(cudaMemcpyAsync(&sum, d_sum, sizeof(double), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        if (sum <= bound) {
            printf("iterations %d, error %.3e\n", k, sum);
            break;
        }
    }
    CHECK(cudaFree(d_sum));
    return sum;
}

int main() {
    const int n = 48;
    std::vector<float> A(n * n, 1);
    std::vector<double> b(n, 2.0 * n);
    for (int i = 0; i < n; ++i) A[i * n + i] = 2 * n;
    float *d_A = on_device<float>(n * n);
    double *d_b = on_device<double>(n), *x = on_device<double>(n), *x_new = on_device<double>(n);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemcpy(d_A, A.data(), n * n * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, b.data(), n * 8, cudaMemcpyHostToDevice));
    printf("%.3e\n", solve(d_A, d_b, 1e-4f, 200, x, x_new, stream, n));
}
