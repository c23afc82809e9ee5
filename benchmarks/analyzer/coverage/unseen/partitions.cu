// For each number, batches of candidates until a partition is found; what was found is fetched only then.
#include "common.cuh"

__global__ void part(const int *primes, int count, int offset, int number, int *found, int *first, int *second) {
    int at = offset + blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    for (int other = 0; other < count; ++other)
        if (primes[at] + primes[other] == number) *found = 1, *first = primes[at], *second = primes[other];
}

int main() {
    int primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53}, count = 16;
    int *d_primes = on_device<int>(count), *d_found = on_device<int>(1), *d_first = on_device<int>(1);
    int *d_second = on_device<int>(1);
    CHECK(cudaMemcpy(d_primes, primes, sizeof primes, cudaMemcpyHostToDevice));
    for (int number = 4; number <= 50; number += 2) {
        int first = 0, second = 0, offset = 0;
        bool found = false;
        CHECK(cudaMemset(d_found, 0, sizeof(int)));
        while (!found && offset < count) {
            part<<<1, 4>>>(d_primes, count, offset, number, d_found, d_first, d_second);
            CHECK(cudaDeviceSynchronize());
            int h_found = 0;
            CHECK(cudaMemcpy(&h_found, d_found, sizeof(int), cudaMemcpyDeviceToHost));
            if (h_found) {
                found = true;
                CHECK(cudaMemcpy(&first, d_first, sizeof(int), cudaMemcpyDeviceToHost));
                CHECK(cudaMemcpy(&second, d_second, sizeof(int), cudaMemcpyDeviceToHost));
            }
            offset += 4;
        }
        printf("%d = %d + %d\n", number, first, second);
    }
}
