// Two sums come back in each iteration; the host computes the statistics that the next kernels are passed.
#include "common.cuh"

__global__ void prepare(const float *image, float *sums, float *squares, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sums[i] = image[i], squares[i] = image[i] * image[i];
}

__global__ void reduce(float *sums, float *squares, int n) {
    for (int i = 1; i < n; ++i) sums[0] += sums[i], squares[0] += squares[i];
}

__global__ void diffuse(float *image, float q, float lambda, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) image[i] += lambda * (q - image[i] * 0.01f);
}

int main(int argc, char **argv) {
    int n = 500, iterations = argc > 1 ? atoi(argv[1]) : 10, pixels = n;
    float lambda = 0.5f, *image = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; ++i) image[i] = expf((i % 17) / 255.0f);
    float *d_image = on_device<float>(n), *d_sums = on_device<float>(n), *d_squares = on_device<float>(n);
    cudaMemcpy(d_image, image, n * sizeof(float), cudaMemcpyHostToDevice);
    float total, total2;
    for (int iteration = 0; iteration < iterations; iteration++) {
        prepare<<<(n + 127) / 128, 128>>>(d_image, d_sums, d_squares, n);
        reduce<<<1, 1>>>(d_sums, d_squares, n);
        cudaMemcpy(&total, d_sums, sizeof(float), cudaMemcpyDeviceToHost);
        cudaMemcpy(&total2, d_squares, sizeof(float), cudaMemcpyDeviceToHost);
        float mean = total / pixels;
        float variance = (total2 / pixels) - mean * mean;
        float q = variance / (mean * mean);
        diffuse<<<(n + 127) / 128, 128>>>(d_image, q, lambda, n);
    }
    cudaMemcpy(image, d_image, n * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%g\n", image[7]);
}
