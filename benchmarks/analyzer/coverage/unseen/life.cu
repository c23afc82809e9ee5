// The game of life until a generation is like the one before, or nothing lives; each generation comes to the host.
#include "common.cuh"

__global__ void next(const unsigned char *from, unsigned char *to, int width) {
    int x = threadIdx.x, y = blockIdx.x, around = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            if (dx || dy) around += from[((y + dy + width) % width) * width + (x + dx + width) % width];
    to[y * width + x] = around == 3 || (around == 2 && from[y * width + x]);
}

int main() {
    const int width = 16, cells = width * width;
    unsigned char now[cells] = {}, before[cells] = {};
    for (int i = 0; i < cells; ++i) now[i] = (i * 7 % 5) == 0;
    unsigned char *d_from = on_device<unsigned char>(cells), *d_to = on_device<unsigned char>(cells);
    CHECK(cudaMemcpy(d_from, now, cells, cudaMemcpyHostToDevice));
    int generation = 0;
    bool stable = false;
    while (!stable && generation < 200) {
        memcpy(before, now, cells);
        next<<<width, width>>>(d_from, d_to, width);
        CHECK(cudaMemcpy(now, d_to, cells, cudaMemcpyDeviceToHost));
        int alive = 0;
        for (int i = 0; i < cells; ++i) alive += now[i];
        printf("generation %d: %d\n", generation, alive);
        stable = memcmp(now, before, cells) == 0 || alive == 0;
        unsigned char *kept = d_from;
        d_from = d_to, d_to = kept;
        ++generation;
    }
    printf("%d\n", generation);
}
