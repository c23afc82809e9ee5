// Particle swarm: the host finds the best particle and has its position copied within the device.
#include <cfloat>

#include "common.cuh"

__global__ void fly(float *position, float *velocity, const float *best, float *values, int particles, int dimensions) {
    int p = threadIdx.x;
    if (p >= particles) return;
    float value = 0;
    for (int d = 0; d < dimensions; ++d) {
        int at = p * dimensions + d;
        velocity[at] = 0.7f * velocity[at] + 0.2f * (best[d] - position[at]);
        position[at] += velocity[at];
        value += position[at] * position[at];
    }
    values[p] = value;
}

int main() {
    const int particles = 64, dimensions = 4;
    float *h_values = (float *)malloc(particles * sizeof(float)), *d_values = on_device<float>(particles);
    float *d_position = on_device<float>(particles * dimensions), *d_velocity = on_device<float>(particles * dimensions);
    float *d_best = on_device<float>(dimensions), best_value = FLT_MAX;
    std::vector<float> start(particles * dimensions);
    for (size_t i = 0; i < start.size(); ++i) start[i] = (i * 29 % 83) / 10.0f - 4;
    CHECK(cudaMemcpy(d_position, start.data(), start.size() * 4, cudaMemcpyHostToDevice));
    for (int iteration = 0; iteration < 60; ++iteration) {
        fly<<<1, particles>>>(d_position, d_velocity, d_best, d_values, particles, dimensions);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(h_values, d_values, particles * sizeof(float), cudaMemcpyDeviceToHost));
        for (int p = 0; p < particles; ++p) {
            if (h_values[p] < best_value) {
                best_value = h_values[p];
                CHECK(cudaMemcpy(d_best, d_position + p * dimensions, dimensions * sizeof(float),
                                 cudaMemcpyDeviceToDevice));
            }
        }
    }
    printf("%g\n", best_value);
    free(h_values);
}
