// All words in batches until one fits, with a line of progress.
#include "common.cuh"

__global__ void attempt(unsigned long long first, unsigned long long count, unsigned long long wanted, bool *found) {
    unsigned long long at = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (at < count && ((first + at) * 2654435761ull) % 1000003 == wanted) *found = true;
}

static void progress(double percent) {
    printf("\r%6.2f %%", percent);
    fflush(stdout);
}

static void crack(unsigned long long total, unsigned long long batch, unsigned long long wanted) {
    bool *d_found = on_device<bool>(1), h_found = false;
    unsigned long long remaining = total, offset = 0;
    while (remaining > 0) {
        unsigned long long current = remaining > batch ? batch : remaining;
        int blocks = (int)((current + 127) / 128);
        attempt<<<blocks, 128>>>(offset, current, wanted, d_found);
        cudaDeviceSynchronize();
        cudaError_t code = cudaGetLastError();
        if (code != cudaSuccess) {
            printf("CUDA error: %s\n", cudaGetErrorString(code));
            break;
        }
        cudaMemcpy(&h_found, d_found, sizeof(bool), cudaMemcpyDeviceToHost);
        if (h_found) {
            printf("found\n");
            break;
        }
        offset += current;
        remaining -= current;
        progress((double)offset / total * 100);
    }
    cudaFree(d_found);
}

int main() { crack(50000, 1000, 12345); }
