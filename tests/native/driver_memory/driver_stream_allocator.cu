// Memory in the order of streams: allocated in one and freed in another behind an event, used by launches, pools with thresholds, statistics, trimming.
#include "../driver.h"

#include <vector>

static cuuint64_t ask(CUmemoryPool pool, CUmemPool_attribute attribute) {
    cuuint64_t value = ~0ull;
    OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

// A small allocator on top, as libraries have one: blocks of powers of two are kept by size and given again, each behind its stream's work.
class Cache {
  public:
    explicit Cache(CUmemoryPool pool) : pool(pool) {}

    CUdeviceptr get(size_t size, CUstream stream) {
        size_t rounded = 256;
        while (rounded < size) rounded *= 2;
        for (Block& block : blocks) {
            if (block.used || block.size != rounded) continue;
            OK(cuStreamWaitEvent(stream, block.free, 0));
            block.used = true;
            ++hits;
            return block.address;
        }
        Block block = {0, rounded, nullptr, true};
        OK(cuMemAllocFromPoolAsync(&block.address, rounded, pool, stream));
        OK(cuEventCreate(&block.free, CU_EVENT_DISABLE_TIMING));
        blocks.push_back(block);
        return block.address;
    }

    void put(CUdeviceptr address, CUstream stream) {
        for (Block& block : blocks) {
            if (block.address != address) continue;
            EXPECT(block.used);
            OK(cuEventRecord(block.free, stream));
            block.used = false;
            return;
        }
        EXPECT(!"an address of the cache");
    }

    void empty(CUstream stream) {
        for (Block& block : blocks) {
            EXPECT(!block.used);
            OK(cuStreamWaitEvent(stream, block.free, 0));
            OK(cuMemFreeAsync(block.address, stream));
            OK(cuEventDestroy(block.free));
        }
        blocks.clear();
    }

    size_t bytes() const {
        size_t total = 0;
        for (const Block& block : blocks) total += block.size;
        return total;
    }
    int hits = 0;

  private:
    struct Block {
        CUdeviceptr address;
        size_t size;
        CUevent free;
        bool used;
    };
    CUmemoryPool pool;
    std::vector<Block> blocks;
};

int main() {
    CUdevice device = begin();
    CUmodule module;
    CUfunction fill;
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    CUstream streams[3];
    for (CUstream& stream : streams) OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    CUmemoryPool pool;
    OK(cuMemPoolCreate(&pool, &properties));
    EXPECT(ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0 && ask(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
    EXPECT(ask(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == 0);
    cuuint64_t keep = ~0ull;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    int reuse = 7;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &reuse));
    EXPECT(reuse == 1);

    // A temporary for each piece of work: allocated, filled, added up in the result by a copy, freed; streams in turn.
    CUdeviceptr results;
    const int pieces = 12, count = 512;
    OK(cuMemAlloc(&results, pieces * count * sizeof(int)));
    for (int piece = 0; piece < pieces; ++piece) {
        CUstream stream = streams[piece % 3];
        CUdeviceptr temporary;
        int value = 10000 * piece;
        OK(cuMemAllocFromPoolAsync(&temporary, count * sizeof(int), pool, stream));
        void* parameters[] = {&temporary, &value};
        OK(cuLaunchKernel(fill, count / 64, 1, 1, 64, 1, 1, 0, stream, parameters, nullptr));
        OK(cuMemcpyDtoDAsync(results + piece * count * sizeof(int), temporary, count * sizeof(int), stream));
        OK(cuMemFreeAsync(temporary, stream));
    }
    OK(cuCtxSynchronize());
    std::vector<int> ints(pieces * count);
    OK(cuMemcpyDtoH(ints.data(), results, ints.size() * sizeof(int)));
    long long sum = 0;
    for (int i = 0; i < pieces * count; ++i) {
        EXPECT(ints[i] == i / count * 10000 + i % count);
        sum += ints[i];
    }
    EXPECT(ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0 && ask(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= count * sizeof(int));
    EXPECT(ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= ask(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    OK(cuMemPoolTrimTo(pool, 0));
    EXPECT(ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    cuuint64_t zero = 0, one = 1;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    EXPECT(ask(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
    FAILS(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);

    // Allocated in one stream, freed in another that waits for it.
    CUevent ready;
    CUdeviceptr travelling;
    int seen[64], value = 5;
    OK(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAllocFromPoolAsync(&travelling, sizeof seen, pool, streams[0]));
    void* parameters[] = {&travelling, &value};
    OK(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, streams[0], parameters, nullptr));
    OK(cuEventRecord(ready, streams[0]));
    OK(cuStreamWaitEvent(streams[1], ready, 0));
    OK(cuMemcpyDtoHAsync(seen, travelling, sizeof seen, streams[1]));
    OK(cuMemFreeAsync(travelling, streams[1]));
    OK(cuStreamSynchronize(streams[1]));
    EXPECT(seen[0] == 5 && seen[63] == 68);
    FAILS(cuMemFreeAsync(travelling, streams[1]), CUDA_ERROR_INVALID_VALUE);
    // cuMemFree frees it as well.
    OK(cuMemAllocFromPoolAsync(&travelling, 4096, pool, streams[0]));
    OK(cuStreamSynchronize(streams[0]));
    OK(cuMemFree(travelling));

    Cache cache(pool);
    for (int round = 0; round < 20; ++round) {
        CUstream stream = streams[round % 3];
        CUdeviceptr small = cache.get(100 + round, stream), large = cache.get(3000, stream);
        EXPECT(small != large);
        OK(cuMemsetD8Async(small, round, 100, stream));
        OK(cuMemsetD8Async(large, 100 + round, 3000, stream));
        OK(cuMemcpyDtoDAsync(results + 4 * round, small, 2, stream));
        OK(cuMemcpyDtoDAsync(results + 4 * round + 2, large + 2998, 2, stream));
        cache.put(small, stream);
        cache.put(large, stream);
    }
    EXPECT(cache.hits == 38 && cache.bytes() == 256 + 4096);
    EXPECT(ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= cache.bytes());
    cache.empty(streams[0]);
    OK(cuCtxSynchronize());
    unsigned char bytes[80];
    OK(cuMemcpyDtoH(bytes, results, sizeof bytes));
    for (int i = 0; i < 80; ++i) EXPECT(bytes[i] == i / 4 + (i % 4 < 2 ? 0 : 100));
    if (on_farlane()) EXPECT(ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    FAILS(cuMemAllocFromPoolAsync(&travelling, 1ull << 50, pool, streams[0]), CUDA_ERROR_OUT_OF_MEMORY);
    FAILS(cuMemAllocAsync(nullptr, 16, streams[0]), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolDestroy(pool));
    for (CUstream stream : streams) OK(cuStreamDestroy(stream));
    OK(cuMemFree(results));
    printf("driver_stream_allocator %lld\nPASS\n", sum);
    return 0;
}
