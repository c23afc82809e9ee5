#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
__global__ void likelihood(float *x, float *y, float *w, const unsigned char *I, int n, int k, int fr) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) w[i] = w[i] * expf(I[(int)(x[i] + y[i]) + k * fr]); }
__global__ void normalize(float *w, float *sums, int n, int *seed) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) w[i] /= sums[0]; }
__global__ void sum(float *w, float *sums, int n) { float s = 0; for (int i = 0; i < n; i++) s += w[i]; sums[0] = s; }
__global__ void find_index(float *x, float *y, float *cdf, float *u, float *xj, float *yj, float *w, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { xj[i] = x[i]; yj[i] = y[i]; } }
void check_error(cudaError e) { if (e != cudaSuccess) { printf("\nCUDA error:: %s\n", cudaGetErrorString(e)); exit(1); } }
void particle_filter(unsigned char *I, int IszX, int IszY, int Nfr, int *seed, int Np) {
    float *x, *y, *w, *xj, *yj, *cdf, *u, *sums; unsigned char *d_I; int *d_seed;
    float xe = 0, ye = 0;
    float *weights = (float *)malloc(sizeof(float) * Np), *hx = (float *)malloc(4 * Np), *hy = (float *)malloc(4 * Np);
    for (int i = 0; i < Np; i++) { weights[i] = 1 / (float)Np; hx[i] = xe; hy[i] = ye; }
    check_error(cudaMalloc((void **)&x, 4 * Np)); check_error(cudaMalloc((void **)&y, 4 * Np)); check_error(cudaMalloc((void **)&w, 4 * Np));
    check_error(cudaMalloc((void **)&xj, 4 * Np)); check_error(cudaMalloc((void **)&yj, 4 * Np)); check_error(cudaMalloc((void **)&cdf, 4 * Np));
    check_error(cudaMalloc((void **)&u, 4 * Np)); check_error(cudaMalloc((void **)&sums, 4 * Np)); check_error(cudaMalloc((void **)&d_I, IszX * IszY * Nfr)); check_error(cudaMalloc((void **)&d_seed, 4 * Np));
    check_error(cudaMemcpy(d_I, I, IszX * IszY * Nfr, cudaMemcpyHostToDevice));
    check_error(cudaMemcpy(d_seed, seed, 4 * Np, cudaMemcpyHostToDevice));
    check_error(cudaMemcpy(w, weights, 4 * Np, cudaMemcpyHostToDevice));
    int blocks = ceil((float)Np / 512.0f);
    for (int k = 1; k < Nfr; k++) {
        likelihood<<<blocks, 512>>>(x, y, w, d_I, Np, k, IszX * IszY);
        sum<<<1, 1>>>(w, sums, Np);
        normalize<<<blocks, 512>>>(w, sums, Np, d_seed);
        find_index<<<blocks, 512>>>(x, y, cdf, u, xj, yj, w, Np);
        check_error(cudaMemcpyAsync(x, xj, 4 * Np, cudaMemcpyDeviceToDevice));
        check_error(cudaMemcpyAsync(y, yj, 4 * Np, cudaMemcpyDeviceToDevice));
    }
    check_error(cudaDeviceSynchronize());
    for (int k = 1; k < Nfr; k++) {
        likelihood<<<blocks, 512>>>(x, y, w, d_I, Np, k, IszX * IszY);
        check_error(cudaMemcpy(hx, x, 4 * Np, cudaMemcpyDeviceToHost));
        check_error(cudaMemcpy(hy, y, 4 * Np, cudaMemcpyDeviceToHost));
        xe = ye = 0;
        for (int i = 0; i < Np; i++) { xe += hx[i]; ye += hy[i]; }
        printf("XE: %lf\nYE: %lf\n", xe, ye);
    }
    cudaFree(x); cudaFree(y); cudaFree(w); cudaFree(d_I); cudaFree(d_seed);
    free(weights); free(hx); free(hy);
}
int main(int argc, char **argv) {
    int X = 128, Y = 128, N = 10, P = 10000;
    for (int i = 1; i < argc; i++) { if (!strcmp(argv[i], "-x")) X = atoi(argv[++i]); else if (!strcmp(argv[i], "-np")) P = atoi(argv[++i]); else if (!strcmp(argv[i], "-z")) N = atoi(argv[++i]); }
    int *seed = (int *)malloc(4 * P); for (int i = 0; i < P; i++) seed[i] = time(0) * i;
    unsigned char *I = (unsigned char *)calloc(X * Y * N, 1);
    particle_filter(I, X, Y, N, seed, P);
    free(seed); free(I);
    return 0;
}
