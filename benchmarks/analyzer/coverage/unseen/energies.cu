// Molecular dynamics: every tenth step the partial sums of the energy come back; the step adapts to the drift.
#include "common.cuh"

__global__ void move(float *position, float *velocity, float dt, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) velocity[i] -= dt * position[i], position[i] += dt * velocity[i];
}

__global__ void energy(const float *position, const float *velocity, double *partial, int n) {
    __shared__ double held[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x] = i < n ? 0.5 * (position[i] * position[i] + velocity[i] * velocity[i]) : 0;
    __syncthreads();
    for (int half = 32; half; half /= 2) {
        if (threadIdx.x < half) held[threadIdx.x] += held[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = held[0];
}

int main(int argc, char **argv) {
    const int n = 500, blocks = (n + 63) / 64;
    int steps = argc > 1 ? atoi(argv[1]) : 200;
    std::vector<float> position(n);
    for (int i = 0; i < n; ++i) position[i] = (i % 9) * 0.1f;
    float *d_position = on_device<float>(n), *d_velocity = on_device<float>(n), dt = 0.05f;
    double *d_partial = on_device<double>(blocks), *h_partial = (double *)malloc(blocks * sizeof(double)), last = 0;
    CHECK(cudaMemcpy(d_position, position.data(), n * 4, cudaMemcpyHostToDevice));
    for (int step = 0; step < steps; ++step) {
        move<<<blocks, 64>>>(d_position, d_velocity, dt, n);
        CHECK(cudaGetLastError());
        if (step % 10 == 0) {
            energy<<<blocks, 64>>>(d_position, d_velocity, d_partial, n);
            CHECK(cudaMemcpy(h_partial, d_partial, blocks * sizeof(double), cudaMemcpyDeviceToHost));
            double total = 0;
            for (int block = 0; block < blocks; ++block) total += h_partial[block];
            printf("%d %.6f\n", step, total);
            if (step > 0 && fabs(total - last) > 0.01 * last) dt *= 0.9f;
            last = total;
        }
    }
    free(h_partial);
}
