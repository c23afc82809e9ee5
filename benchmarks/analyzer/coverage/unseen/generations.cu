// A genetic algorithm: the host looks for the best individual of each generation and stops at a good one.
#include <algorithm>
#include <iostream>

#include "common.cuh"

#define POPULATION 128

__global__ void evaluate(const float *genes, float *fitness) {
    int i = threadIdx.x;
    fitness[i] = 1 / (1 + fabsf(genes[i] - 3.053f));
}

__global__ void breed(const float *genes, float *next, int best, int generation) {
    int i = threadIdx.x;
    next[i] = i == best ? genes[i] : 0.9f * genes[best] + 0.1f * genes[(i * 7 + generation) % POPULATION];
}

int main() {
    std::vector<float> genes(POPULATION), fitness(POPULATION);
    for (int i = 0; i < POPULATION; ++i) genes[i] = (i * 37 % 101) / 10.0f;
    float *d_genes = on_device<float>(POPULATION), *d_next = on_device<float>(POPULATION);
    float *d_fitness = on_device<float>(POPULATION), best_ever = 0;
    CHECK(cudaMemcpy(d_genes, genes.data(), POPULATION * sizeof(float), cudaMemcpyHostToDevice));
    int generation;
    for (generation = 0; generation < 100; ++generation) {
        evaluate<<<1, POPULATION>>>(d_genes, d_fitness);
        CHECK(cudaMemcpy(fitness.data(), d_fitness, POPULATION * sizeof(float), cudaMemcpyDeviceToHost));
        int best = std::max_element(fitness.begin(), fitness.end()) - fitness.begin();
        if (fitness[best] > best_ever) {
            best_ever = fitness[best];
            std::cout << "generation " << generation << ": " << best_ever << std::endl;
        }
        if (best_ever > 0.9999f) break;
        breed<<<1, POPULATION>>>(d_genes, d_next, best, generation);
        std::swap(d_genes, d_next);
    }
    std::cout << generation << " generations" << std::endl;
}
