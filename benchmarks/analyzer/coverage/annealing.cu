// Simulated annealing: the candidates' energies come back, the host accepts by its own random numbers.
#include "common.cuh"

__global__ void energies(const float *state, float *found, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += cosf(state[i] + threadIdx.x);
    found[threadIdx.x] = sum;
}

__global__ void move(float *state, int which, float by) {
    state[which] += by;
}

int main() {
    const int n = 64, tries = 8;
    float *d_state = on_device<float>(n), *d_found = on_device<float>(tries), found[tries];
    unsigned seed = 12345;
    float temperature = 10, energy = 1e9f;
    int steps = 0, accepted = 0;
    while (temperature > 0.1f) {
        energies<<<1, tries>>>(d_state, d_found, n);
        CHECK(cudaMemcpy(found, d_found, sizeof found, cudaMemcpyDeviceToHost));
        int best = 0;
        for (int i = 1; i < tries; ++i)
            if (found[i] < found[best]) best = i;
        seed = seed * 1103515245u + 12345u;
        float chance = (seed >> 16 & 0x7fff) / 32768.0f;
        if (found[best] < energy || chance < temperature / 20) {
            energy = found[best];
            accepted++;
            move<<<1, 1>>>(d_state, best, chance);
        }
        temperature *= 0.97f;
        steps++;
    }
    printf("%d steps, %d accepted\n", steps, accepted);
}
