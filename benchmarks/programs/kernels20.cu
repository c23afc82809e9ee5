// Twenty kernels of the kinds that programs have, in float and in double, each launched once (guests/cold_start.py).

#include <cuda_runtime.h>

#include <cstdio>

const int COUNT = 1 << 14, BLOCK = 256, SIDE = 128;

template <class T>
__global__ void fill(T* a, T* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = T(i % 97) / 7;
    b[i] = T(i % 31) - 11;
}
template <class T>
__global__ void axpy(T* a, const T* b, T scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] += scale * b[i];
}
template <class T>
__global__ void functions(T* a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = sqrt(fabs(a[i])) + sin(a[i]) * exp(-a[i] * a[i] / 100);
}
template <class T>
__global__ void stencil(T* out, const T* in) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int i = y * SIDE + x;
    bool inside = x > 0 && y > 0 && x < SIDE - 1 && y < SIDE - 1;
    out[i] = inside ? (in[i - 1] + in[i + 1] + in[i - SIDE] + in[i + SIDE]) / 4 : in[i];
}
template <class T>
__global__ void transpose(T* out, const T* in) {
    __shared__ T tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * SIDE + x];
    __syncthreads();
    out[(blockIdx.x * 16 + threadIdx.y) * SIDE + blockIdx.y * 16 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
template <class T>
__global__ void product(T* out, const T* a, const T* b) {
    __shared__ T left[16][16], right[16][16];
    T sum = 0;
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    for (int k = 0; k < SIDE; k += 16) {
        left[threadIdx.y][threadIdx.x] = a[row * SIDE + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * SIDE + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    out[row * SIDE + column] = sum;
}
template <class T>
__global__ void reduce(T* out, const T* in) {
    __shared__ T part[BLOCK];
    part[threadIdx.x] = in[blockIdx.x * BLOCK + threadIdx.x];
    for (int half = BLOCK / 2; half >= 32; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    T sum = part[threadIdx.x % 32];
    for (int half = 16; half; half /= 2) sum += __shfl_down_sync(~0U, sum, half);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}
template <class T>
__global__ void scan(T* values) {
    __shared__ T part[2][BLOCK];
    int side = 0;
    part[0][threadIdx.x] = values[blockIdx.x * BLOCK + threadIdx.x];
    __syncthreads();
    for (int distance = 1; distance < BLOCK; distance *= 2) {
        T other = threadIdx.x >= distance ? part[side][threadIdx.x - distance] : T(0);
        part[1 - side][threadIdx.x] = part[side][threadIdx.x] + other;
        side = 1 - side;
        __syncthreads();
    }
    values[blockIdx.x * BLOCK + threadIdx.x] = part[side][threadIdx.x];
}
template <class T>
__global__ void histogram(int* bins, const T* values) {
    __shared__ int mine[64];
    if (threadIdx.x < 64) mine[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&mine[int(fabs(values[blockIdx.x * BLOCK + threadIdx.x])) & 63], 1);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}
template <class T>
__global__ void scatter(T* out, const T* in) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[(i * 7919U) % COUNT] = in[i];
}

template <class T>
double run() {
    T *a, *b, *c;
    int* bins;
    cudaMalloc(&a, COUNT * sizeof(T));
    cudaMalloc(&b, COUNT * sizeof(T));
    cudaMalloc(&c, COUNT * sizeof(T));
    cudaMalloc(&bins, 64 * sizeof(int));
    cudaMemset(bins, 0, 64 * sizeof(int));
    const dim3 tile(16, 16), tiles(SIDE / 16, SIDE / 16);
    fill<<<COUNT / BLOCK, BLOCK>>>(a, b);
    axpy<<<COUNT / BLOCK, BLOCK>>>(a, b, T(0.5));
    functions<<<COUNT / BLOCK, BLOCK>>>(a);
    stencil<<<tiles, tile>>>(c, a);
    transpose<<<tiles, tile>>>(a, c);
    product<<<tiles, tile>>>(c, a, b);
    scan<<<COUNT / BLOCK, BLOCK>>>(c);
    histogram<<<COUNT / BLOCK, BLOCK>>>(bins, c);
    scatter<<<COUNT / BLOCK, BLOCK>>>(b, c);
    cudaMemset(a, 0, sizeof(T));
    reduce<<<COUNT / BLOCK, BLOCK>>>(a, b);
    T sum;
    int counted[64];
    cudaMemcpy(&sum, a, sizeof(T), cudaMemcpyDeviceToHost);
    cudaMemcpy(counted, bins, sizeof counted, cudaMemcpyDeviceToHost);
    int all = 0;
    for (int count : counted) all += count;
    return all == COUNT && cudaGetLastError() == cudaSuccess ? double(sum) : 0;
}

int main() {
    double single = run<float>(), wide = run<double>();
    std::printf("%.6g %.9g\n", single, wide);
    return single == 0 || wide == 0 || (single - wide) / wide > 1e-3 || (wide - single) / wide > 1e-3;
}
