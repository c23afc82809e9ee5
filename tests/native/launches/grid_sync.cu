// Cooperative launches: grid-wide barriers between the phases of one kernel, values handed from block to block.
#include <cooperative_groups.h>

#include "../support.cuh"

namespace cg = cooperative_groups;

// Each phase reads what other blocks wrote in the one before.
__global__ void rotate(int *values, int n, int rounds) {
    cg::grid_group grid = cg::this_grid();
    int i = static_cast<int>(grid.thread_rank());
    for (int round = 0; round < rounds; ++round) {
        int next = values[(i + blockDim.x + 1) % n];
        grid.sync();
        values[i] = next + 1;
        grid.sync();
    }
}

// A sum over the grid: within blocks in shared memory, then by the last thread of all.
__global__ void sum(const int *values, int n, int *partial, int *total) {
    __shared__ int scratch[128];
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    int mine = 0;
    for (int i = static_cast<int>(grid.thread_rank()); i < n; i += static_cast<int>(grid.size())) {
        mine += values[i];
    }
    scratch[threadIdx.x] = mine;
    block.sync();
    for (int width = blockDim.x / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) {
            scratch[threadIdx.x] += scratch[threadIdx.x + width];
        }
        block.sync();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x + gridDim.x * blockIdx.y] = scratch[0];
    }
    grid.sync();
    if (grid.thread_rank() == grid.size() - 1) {
        int all = 0;
        for (int b = 0; b < gridDim.x * gridDim.y; ++b) {
            all += partial[b];
        }
        *total = all;
    }
}

int main() {
    Verdict verdict;
    const int blocks = 12, threads = 128, n = blocks * threads, rounds = 25;
    std::vector<int> values(n), expected(n);
    Random random(31);
    for (int &value : values) {
        value = static_cast<int>(random.below(1000));
    }
    expected = values;
    for (int round = 0; round < rounds; ++round) {
        std::vector<int> next(n);
        for (int i = 0; i < n; ++i) {
            next[i] = expected[(i + threads + 1) % n] + 1;
        }
        expected = next;
    }
    DeviceArray<int> device(values), partial(64), total(1);
    int *pointer = device.get(), count = n, times = rounds;
    void *arguments[] = {&pointer, &count, &times};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void *>(rotate), dim3(blocks), dim3(threads), arguments, 0, 0));
    verdict.equal(device.download(), expected, "rotated");

    int *to = partial.get(), *result = total.get();
    void *sum_arguments[] = {&pointer, &count, &to, &result};
    for (int i = 0; i < 10; ++i) {
        CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void *>(sum), dim3(4, 3), dim3(threads), sum_arguments, 0, 0));
    }
    int all = 0;
    for (int value : expected) {
        all += value;
    }
    verdict.equal(total.download(), std::vector<int>{all}, "sum");

    // By the extended launch, and one that is too large.
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = dim3(blocks);
    configuration.blockDim = dim3(threads);
    configuration.attrs = &attribute;
    configuration.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&configuration, rotate, pointer, count, 0));
    verdict.equal(device.download(), expected, "nothing rotated");
    cudaError_t error =
        cudaLaunchCooperativeKernel(reinterpret_cast<const void *>(rotate), dim3(1 << 20), dim3(threads), arguments, 0, 0);
    verdict.expect(error == cudaErrorCooperativeLaunchTooLarge, "a launch that is too large");
    cudaGetLastError();

    print_checksum("grid_sync", expected);
    return verdict.finish();
}
