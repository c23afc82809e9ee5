// Loops that a manifest describes at entry: loop_prediction <scenario> <count>.
#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void add(float *to, int at, float by) {
    if (threadIdx.x == 0 && blockIdx.x == 0) to[at & 1023] += by;
}

static __global__ void gather(float *to, const float *from, int n, long step) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = to[i] * 0.5f + from[(i + step) & 1023];
}

static float *a, *b;
static cudaStream_t stream;

__attribute__((noinline)) static void one(int count) {
    for (int i = 0; i < count; i++) add<<<1, 32>>>(a, i, 2.0f);
}

__attribute__((noinline)) static void two(int count, float *to, const float *from, int n) {
    for (int i = 0; i < count; i++) {
        add<<<1, 32>>>(to, 3 * i, 1.0f);
        gather<<<4, 256, 0, stream>>>(to, from, n, 5L * i);
    }
}

__attribute__((noinline)) static void three(int count, float *to, float *from, int n) {
    for (int i = 0; i < count; i++) {
        gather<<<4, 256>>>(to, from, n, i);
        add<<<2, 32, 64>>>(from, i + n, 0.25f);
        gather<<<dim3(2, 2), 128>>>(from, to, n / 2, 7);
    }
}

__attribute__((noinline)) static void checked(int count, float *to, const float *from) {
    for (int i = 0; i < count; i++) {
        add<<<1, 32>>>(to, i, 1.5f);
        if (cudaGetLastError() != cudaSuccess) std::exit(3);
        gather<<<4, 256>>>(to, from, 1024, i);
        if (cudaDeviceSynchronize() != cudaSuccess) std::exit(4);
    }
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int count = std::atoi(argv[2]);
    float *host = (float *)std::calloc(1024, sizeof(float));
    if (cudaMalloc(&a, 4096) || cudaMalloc(&b, 4096) || cudaStreamCreate(&stream)) return 1;
    for (int i = 0; i < 1024; i++) host[i] = float(i % 7);
    cudaMemcpy(a, host, 4096, cudaMemcpyHostToDevice);
    cudaMemcpy(b, host, 4096, cudaMemcpyHostToDevice);
    for (int again = 0; again < 2; again++) {
        if (!std::strcmp(argv[1], "one")) one(count);
        else if (!std::strcmp(argv[1], "two")) two(count, a, b, 1000);
        else if (!std::strcmp(argv[1], "three")) three(count, a, b, 900);
        else if (!std::strcmp(argv[1], "checked")) checked(count, a, b);
        else return 2;
        double sum = 0;
        for (float *from : {a, b}) {
            cudaMemcpy(host, from, 4096, cudaMemcpyDeviceToHost);
            for (int i = 0; i < 1024; i++) sum = sum * 0.99 + host[i];
        }
        std::printf("%s %d: %.9g\n", argv[1], count, sum);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
