// Allocates until there is no more, is told so by cudaErrorMemoryAllocation, and goes on after freeing.
#include "../support.cuh"

__global__ void fill(unsigned char *data, size_t bytes, unsigned char value) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < bytes; i += size_t(gridDim.x) * blockDim.x) {
        data[i] = value;
    }
}

int main() {
    Verdict verdict;
    size_t free_bytes = 0, total = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    verdict.expect(free_bytes <= total && total > 0, "memory info");
    void *pointer = nullptr;
    verdict.expect(cudaMalloc(&pointer, total + 1) == cudaErrorMemoryAllocation, "more than there is");
    verdict.expect(cudaGetLastError() == cudaErrorMemoryAllocation, "last error");

    const size_t block = total / 8;
    std::vector<unsigned char *> blocks;
    cudaError_t error;
    while ((error = cudaMalloc(&pointer, block)) == cudaSuccess && blocks.size() < 64) {
        blocks.push_back(static_cast<unsigned char *>(pointer));
    }
    verdict.expect(error == cudaErrorMemoryAllocation, "the device is full");
    verdict.expect(cudaGetLastError() == cudaErrorMemoryAllocation, "last error when full");
    verdict.expect(blocks.size() >= 6 && blocks.size() <= 8, "how much fitted");
    verdict.expect(cudaDeviceSynchronize() == cudaSuccess, "nothing else is wrong");

    unsigned char *last = blocks.back();
    CHECK(cudaFree(blocks.front()));
    CHECK(cudaMalloc(&pointer, block));
    const size_t used = 1 << 20;
    fill<<<16, 256>>>(static_cast<unsigned char *>(pointer), used, 5);
    fill<<<16, 256>>>(last + block - used, used, 6);
    CHECK_LAUNCH();
    std::vector<unsigned char> host(used);
    CHECK(cudaMemcpy(host.data(), pointer, used, cudaMemcpyDeviceToHost));
    verdict.expect(host == std::vector<unsigned char>(used, 5), "the block that came free");
    CHECK(cudaMemcpy(host.data(), last + block - used, used, cudaMemcpyDeviceToHost));
    verdict.expect(host == std::vector<unsigned char>(used, 6), "the end of the last block");
    CHECK(cudaFree(pointer));
    for (size_t i = 1; i < blocks.size(); ++i) {
        CHECK(cudaFree(blocks[i]));
    }
    size_t free_after = 0;
    CHECK(cudaMemGetInfo(&free_after, &total));
    verdict.expect(free_after == free_bytes, "all memory is free again");
    std::printf("out_of_memory\n");
    return verdict.finish();
}
