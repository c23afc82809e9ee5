// Conjugate gradient: dot products come back as one number a block, a function adds them.
#include "common.cuh"
#define BLOCKS 8
#define THREADS 32

__global__ void multiply(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 4 * x[i] - (i > 0 ? x[i - 1] : 0) - (i < n - 1 ? x[i + 1] : 0);
}
__global__ void axpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
__global__ void xpay(const float *x, float a, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + a * y[i];
}
__global__ void products(const float *x, const float *y, float *partial, int n) {
    float sum = 0;
    if (threadIdx.x == 0)
        for (int i = blockIdx.x * blockDim.x; i < n && i < (blockIdx.x + 1) * blockDim.x; ++i) sum += x[i] * y[i];
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

static float dot(const float *x, const float *y, float *d_partial, float *partial, int n) {
    products<<<BLOCKS, THREADS>>>(x, y, d_partial, n);
    CHECK(cudaMemcpy(partial, d_partial, BLOCKS * sizeof(float), cudaMemcpyDeviceToHost));
    float sum = 0;
    for (int i = 0; i < BLOCKS; i++) sum += partial[i];
    return sum;
}

int main() {
    const int n = BLOCKS * THREADS;
    std::vector<float> b(n, 1.0f);
    float *x = on_device<float>(n), *r = on_device<float>(n), *p = on_device<float>(n), *Ap = on_device<float>(n);
    float *d_partial = on_device<float>(BLOCKS), *partial = (float *)malloc(BLOCKS * sizeof(float));
    CHECK(cudaMemcpy(r, b.data(), n * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(p, b.data(), n * 4, cudaMemcpyHostToDevice));
    float rr = dot(r, r, d_partial, partial, n), first = rr;
    int k = 0;
    while (rr > 1e-10f * first && k < 100) {
        multiply<<<BLOCKS, THREADS>>>(p, Ap, n);
        float alpha = rr / dot(p, Ap, d_partial, partial, n);
        axpy<<<BLOCKS, THREADS>>>(alpha, p, x, n);
        axpy<<<BLOCKS, THREADS>>>(-alpha, Ap, r, n);
        float next = dot(r, r, d_partial, partial, n);
        float beta = next / rr;
        xpay<<<BLOCKS, THREADS>>>(r, beta, p, n);
        rr = next;
        k++;
        printf("iteration %3d, residual %e\n", k, sqrt(rr));
    }
}
