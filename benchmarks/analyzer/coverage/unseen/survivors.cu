// Levels of a search: the number of survivors of one kernel is the grid of the next; a hit ends it.
#include "common.cuh"

__global__ void sieve(int level, int *survivors, int *count, int *overflow) {
    int candidate = blockIdx.x * blockDim.x + threadIdx.x;
    if ((candidate * (level + 3)) % 7) return;
    int at = atomicAdd(count, 1);
    if (at < 256) survivors[at] = candidate;
    else *overflow = 1;
}

__global__ void exact(int level, const int *survivors, int *hit) {
    if (threadIdx.x == 0 && survivors[blockIdx.x] * level == 1330) *hit = survivors[blockIdx.x];
}

static int search(int levels) {
    int *d_survivors = on_device<int>(256), *d_count = on_device<int>(1), *d_overflow = on_device<int>(1);
    int *d_hit = on_device<int>(1), result = -1;
    for (int level = 1; level <= levels; ++level) {
        int survivors = 0, overflow = 0, hit = 0;
        CHECK(cudaMemset(d_count, 0, sizeof(int)));
        sieve<<<4, 64>>>(level, d_survivors, d_count, d_overflow);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&survivors, d_count, sizeof(int), cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(&overflow, d_overflow, sizeof(int), cudaMemcpyDeviceToHost));
        if (overflow) {
            fprintf(stderr, "too many survivors at level %d\n", level);
            return 1;
        }
        if (survivors > 0) {
            exact<<<survivors, 32>>>(level, d_survivors, d_hit);
            CHECK(cudaGetLastError());
            CHECK(cudaDeviceSynchronize());
        }
        CHECK(cudaMemcpy(&hit, d_hit, sizeof(int), cudaMemcpyDeviceToHost));
        printf("level=%d survivors=%d hit=%d\n", level, survivors, hit);
        fflush(stdout);
        if (hit) {
            result = hit;
            break;
        }
    }
    return result;
}

int main() { printf("%d\n", search(20)); }
