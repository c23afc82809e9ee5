// Attributes of functions, names, parameters, preferences, and occupancy.
#include "../driver.h"

static const char* TEXT = PTX_HEADER PTX_SCALE
    ".visible .entry bounded()\n.maxntid 128, 1, 1\n{\n.shared .align 4 .b8 mine[2048];\nret;\n}\n";

static size_t per_thread(int threads) { return threads * 16; }

int main() {
    begin();
    CUmodule module;
    CUfunction scale, bounded;
    OK(cuModuleLoadData(&module, TEXT));
    OK(cuModuleGetFunction(&scale, module, "scale"));
    OK(cuModuleGetFunction(&bounded, module, "bounded"));
    int value = -1;
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bounded));
    EXPECT(value == 128);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, bounded));
    EXPECT(value == 2048);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, bounded));
    EXPECT(value == 75);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, bounded));
    EXPECT(value > 0);
    for (int attribute = 0; attribute <= CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE; attribute++)
        OK(cuFuncGetAttribute(&value, (CUfunction_attribute)attribute, scale));
    FAILS(cuFuncGetAttribute(&value, (CUfunction_attribute)99, scale), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuFuncGetAttribute(nullptr, CU_FUNC_ATTRIBUTE_NUM_REGS, scale), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr), CUDA_ERROR_INVALID_HANDLE);
    OK(cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 70000));
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, scale));
    EXPECT(value == 70000);
    OK(cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
    FAILS(cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_NUM_REGS, 16), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 30), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetCacheConfig(scale, CU_FUNC_CACHE_PREFER_SHARED));
    FAILS(cuFuncSetCacheConfig(scale, (CUfunc_cache)9), CUDA_ERROR_INVALID_VALUE);
    const char* name;
    size_t offset, size;
    OK(cuFuncGetName(&name, bounded));
    EXPECT(!strcmp(name, "bounded"));
    OK(cuFuncGetParamInfo(scale, 1, &offset, &size));
    EXPECT(offset == 8 && size == 4);

    int blocks, threads, grid, resident;
    OK(cuDeviceGetAttribute(&resident, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 256, 0));
    EXPECT(blocks == resident / 256);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, scale, 1024, 0, CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE));
    EXPECT(blocks == resident / 1024);
    FAILS(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 0, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, scale, 32, 0, 8), CUDA_ERROR_INVALID_VALUE);
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &threads, scale, nullptr, 0, 0));
    EXPECT(threads > 0 && resident % threads == 0 && grid > 0 && grid % (resident / threads) == 0);
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &threads, bounded, nullptr, 0, 0));
    EXPECT(threads == 128);
    OK(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &threads, scale, per_thread, 0, 100, CU_OCCUPANCY_DEFAULT));
    EXPECT(threads > 0 && threads <= 100);
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&size, scale, 2, 256));
    EXPECT(size > 0);
    CUlaunchConfig config = {};
    config.gridDimX = 8;
    config.blockDimX = 256;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    CUlaunchAttribute cluster = {};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = 4;
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
    config.attrs = &cluster;
    config.numAttrs = 1;
    int clusters;
    OK(cuOccupancyMaxPotentialClusterSize(&clusters, scale, &config));
    EXPECT(clusters == 8);
    OK(cuOccupancyMaxActiveClusters(&clusters, scale, &config));
    EXPECT(clusters > 0);
    OK(cuCtxSynchronize());
    printf("PASS\n");
    return 0;
}
