// A shared library whose image is large: loaded after CUDA was started, it is asked for before it is sent.

#include <cuda_runtime.h>

#define FOUR(x) (x), (x) * 7u + 1u, (x) * 3u + 2u, (x) ^ 5u
#define SIXTEEN(x) FOUR(x), FOUR(x + 16u), FOUR(x + 32u), FOUR(x + 48u)
#define LINE(x) SIXTEEN(x), SIXTEEN(x + 64u), SIXTEEN(x + 128u), SIXTEEN(x + 192u)
#define BLOCK(x) LINE(x), LINE(x + 256u), LINE(x + 512u), LINE(x + 768u)
#define PAGE(x) BLOCK(x), BLOCK(x + 1024u), BLOCK(x + 2048u), BLOCK(x + 3072u)
#define TABLE(x) PAGE(x), PAGE(x + 4096u), PAGE(x + 8192u), PAGE(x + 12288u)
#define MANY(x) TABLE(x), TABLE(x + 16384u), TABLE(x + 32768u), TABLE(x + 49152u)

__device__ unsigned table[] = {MANY(0u), MANY(100000u), MANY(200000u)};

__global__ void look_up(unsigned *result, unsigned index) { *result = table[index]; }

// The value that the device holds at `index`, or all ones when CUDA refused something.
extern "C" unsigned look_up_on_device(unsigned index) {
    unsigned *device = nullptr, value = 0;
    if (cudaMalloc(&device, sizeof value) != cudaSuccess) return ~0u;
    look_up<<<1, 1>>>(device, index);
    if (cudaGetLastError() != cudaSuccess) return ~0u;
    if (cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost) != cudaSuccess) return ~0u;
    return value;
}
