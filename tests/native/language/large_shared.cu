// More shared memory than there is by default: asked for by attribute, refused without; carve-outs, queries.
#include "../support.cuh"

__global__ void reverse(const int *in, int *out, int count) {
    extern __shared__ int area[];
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        area[i] = in[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        out[i] = area[count - 1 - i];
    }
}

int main() {
    Verdict verdict;
    const int count = 60000 / 4;
    std::vector<int> values(count), expected(count);
    for (int i = 0; i < count; ++i) {
        values[i] = i * 7, expected[count - 1 - i] = i * 7;
    }
    DeviceArray<int> in(values), out(count);
    reverse<<<1, 256, 60000>>>(in.get(), out.get(), count);
    verdict.expect(cudaGetLastError() == cudaErrorInvalidValue, "too much without being asked for");
    int most = 0;
    CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    verdict.expect(most >= 65536, "there is as much");
    CHECK(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    CHECK(cudaFuncSetAttribute(reverse, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, reverse));
    verdict.expect(attributes.maxDynamicSharedSizeBytes == 60000 && attributes.sharedSizeBytes == 0, "attributes");
    verdict.expect(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1) == cudaErrorInvalidValue,
                   "more than there is");
    cudaGetLastError();
    reverse<<<1, 256, 60000>>>(in.get(), out.get(), count);
    CHECK_LAUNCH();
    verdict.equal(out.download(), expected, "reversed");
    std::printf("large_shared\n");
    return verdict.finish();
}
