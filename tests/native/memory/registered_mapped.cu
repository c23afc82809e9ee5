// Memory of the program that kernels reach by the pointer that cudaHostGetDevicePointer gives: between the program's own changes, as an end of
// copies and sets, and the program's alone afterwards; in whole pages, and in those of a large vector.
#include <malloc.h>

#include <algorithm>
#include <cstdlib>

#include "../support.cuh"

__global__ void add(int *data, int count, int value) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        data[i] += value;
    }
}

int main() {
    mallopt(M_MMAP_THRESHOLD, 128 << 10); // which would rise with what is freed
    Verdict verdict;
    const int count = 50 * 1024;
    int *whole = static_cast<int *>(std::aligned_alloc(4096, (count + 2048) * sizeof(int))), *mine = whole + 1024;
    std::fill(whole, whole + count + 2048, -1);
    const size_t bytes = count * sizeof(int);
    for (int i = 0; i < count; ++i) {
        mine[i] = i;
    }
    CHECK(cudaHostRegister(mine, bytes, cudaHostRegisterMapped));
    int *there, *middle;
    CHECK(cudaHostGetDevicePointer(&there, mine, 0));
    CHECK(cudaHostGetDevicePointer(&middle, mine + 1000, 0));
    verdict.expect(middle == there + 1000, "a place inside");
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, mine));
    verdict.expect(attributes.type == cudaMemoryTypeHost && attributes.devicePointer == there, "attributes");

    std::vector<int> expected(count);
    for (int i = 0; i < count; ++i) {
        expected[i] = i;
    }
    for (int round = 0; round < 3; ++round) {
        add<<<16, 128>>>(there, count, 10 + round);
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < count; ++i) {
            expected[i] += 10 + round;
        }
        for (int i = round; i < count; i += 7777) { // the program's own, in some pages
            mine[i] *= 2;
            expected[i] *= 2;
        }
    }
    DeviceArray<int> other(count);
    CHECK(cudaMemcpy(other.get(), mine, bytes, cudaMemcpyDefault));
    add<<<4, 64>>>(other.get(), count, 5);
    CHECK(cudaMemcpyAsync(mine, other.get(), bytes / 2, cudaMemcpyDeviceToHost, nullptr));
    CHECK(cudaMemset(mine + count - 9, 0, 9 * sizeof(int)));
    CHECK(cudaMemcpy(other.get(), mine - 1, bytes / 2, cudaMemcpyHostToDevice)); // from outside of it
    verdict.expect(other.download()[0] == -1, "beside it");
    for (int i = 0; i < count; ++i) {
        expected[i] = i >= count - 9 ? 0 : expected[i] + (i < count / 2 ? 5 : 0);
    }
    add<<<16, 128>>>(middle, 1000, 100000);
    for (int i = 1000; i < 2000; ++i) {
        expected[i] += 100000;
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaHostUnregister(mine));
    verdict.equal(std::vector<int>(mine, mine + count), expected, "registered memory");
    verdict.expect(mine[-1] == -1 && mine[count] == -1, "beside it, at the ends");
    mine[5] = 1;
    verdict.expect(cudaHostGetDevicePointer(&there, mine, 0) == cudaErrorInvalidValue, "no longer registered");
    cudaGetLastError();
    std::free(whole);

    std::vector<int> large(200000, 3);
    CHECK(cudaHostRegister(large.data(), large.size() * sizeof(int), cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&there, large.data(), 0));
    add<<<16, 128>>>(there, 200000, 4);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaHostUnregister(large.data()));
    verdict.equal(large, std::vector<int>(200000, 7), "a large vector");
    std::printf("registered_mapped\n");
    return verdict.finish();
}
