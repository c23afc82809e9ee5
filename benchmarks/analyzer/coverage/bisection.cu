// A threshold by bisection: the count above it comes back and halves the interval.
#include "common.cuh"

__global__ void count_above(const float *values, float threshold, unsigned *count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && values[i] > threshold) atomicAdd(count, 1u);
}

int main() {
    const int n = 3000;
    float *h = new float[n];
    for (int i = 0; i < n; ++i) h[i] = (float)((i * 7919) % 4001) / 4001;
    float *d = on_device<float>(n);
    unsigned *d_count = on_device<unsigned>(1), count;
    CHECK(cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice));
    float low = 0, high = 1;
    int rounds = 0;
    while (high - low > 1e-5f) {
        float middle = 0.5f * (low + high);
        CHECK(cudaMemsetAsync(d_count, 0, sizeof(unsigned)));
        count_above<<<(n + 255) / 256, 256>>>(d, middle, d_count, n);
        CHECK(cudaMemcpyAsync(&count, d_count, sizeof(unsigned), cudaMemcpyDeviceToHost));
        CHECK(cudaStreamSynchronize(0));
        if (count > n / 2)
            low = middle;
        else
            high = middle;
        rounds++;
    }
    delete[] h;
    printf("%d %f\n", rounds, low);
}
