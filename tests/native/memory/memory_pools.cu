// Memory pools: made by the program, bounded, the device's current one, freed after their pool; accounts and attributes.
#include "../support.cuh"

__global__ void fill(int *data, int count, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] = value + i;
    }
}

static uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
    uint64_t value = 0;
    CHECK(cudaMemPoolGetAttribute(pool, which, &value));
    return value;
}

int main() {
    Verdict verdict;
    const int count = 5000;
    const size_t bytes = count * sizeof(int);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = 0;
    cudaMemPool_t pool, standard, current;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
    CHECK(cudaDeviceGetMemPool(&current, 0));
    verdict.expect(current == standard && pool != standard, "the default pool is the current one");

    cudaMemAccessDesc access = {};
    access.location = properties.location;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    CHECK(cudaMemPoolSetAccess(pool, &access, 1));
    cudaMemAccessFlags flags;
    CHECK(cudaMemPoolGetAccess(&flags, pool, &access.location));
    verdict.expect(flags == cudaMemAccessFlagsProtReadWrite, "the device has access to its own memory");

    int *first, *second;
    CHECK(cudaMallocFromPoolAsync(&first, bytes, pool, stream));
    fill<<<(count + 127) / 128, 128, 0, stream>>>(first, count, 7);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSetMemPool(0, pool));
    CHECK(cudaMallocAsync(&second, bytes, stream));
    CHECK(cudaMemcpyAsync(second, first, bytes, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 2 * bytes, "both came from the pool");
    verdict.expect(attribute(standard, cudaMemPoolAttrUsedMemCurrent) == 0, "nothing came from the default pool");

    uint64_t threshold = 1 << 20;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    verdict.expect(attribute(pool, cudaMemPoolAttrReleaseThreshold) == threshold, "the threshold is kept");
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaFreeAsync(first, stream));
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == bytes, "one was freed");
    verdict.expect(attribute(pool, cudaMemPoolAttrUsedMemHigh) == 2 * bytes, "two were there");

    std::vector<int> values(count), expected(count);
    for (int i = 0; i < count; ++i) {
        expected[i] = 7 + i;
    }
    CHECK(cudaMemcpy(values.data(), second, bytes, cudaMemcpyDeviceToHost));
    verdict.equal(values, expected, "values");
    CHECK(cudaDeviceSetMemPool(0, standard));
    CHECK(cudaFreeAsync(second, stream));
    CHECK(cudaFreeAsync(nullptr, stream));
    CHECK(cudaMemPoolDestroy(pool));
    verdict.expect(cudaMemPoolCreate(&pool, nullptr) == cudaErrorInvalidValue, "properties are needed");
    cudaGetLastError();
    CHECK(cudaStreamDestroy(stream));
    std::printf("memory_pools\n");
    return verdict.finish();
}
