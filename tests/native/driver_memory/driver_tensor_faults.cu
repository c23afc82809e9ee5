// What kernels do with bad tensor maps: memory that is gone, what is no map, a box that does not fit the block's shared memory. Each in a context of its own.
#include "../driver.h"
#include <cuda_runtime.h>

__device__ unsigned address(const void *pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

__global__ void load(const __grid_constant__ CUtensorMap map) {
    __shared__ alignas(128) float values[64];
    __shared__ unsigned long long barrier;
    if (threadIdx.x == 3) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&barrier)) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(address(values)),
                     "l"(&map), "r"(0), "r"(1), "r"(address(&barrier)) : "memory");
    }
}

static CUtensorMap map_of(CUdeviceptr tensor, cuuint32_t rows) {
    static CUtensorMap map;
    cuuint64_t sizes[2] = {64, 64}, strides[1] = {256};
    cuuint32_t box[2] = {64, rows}, steps[2] = {1, 1};
    OK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)tensor, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                              CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
}

int main() {
    CUdevice device = begin();
    alignas(128) CUtensorMap map;
    for (int test = 0; test < 4; ++test) {
        CUcontext context = create(device);
        CUdeviceptr tensor;
        OK(cuMemAlloc(&tensor, 64 * 256));
        map = map_of(tensor, test == 2 ? 64 : 1);
        if (test == 0) OK(cuMemFree(tensor));
        if (test == 1) memset(&map, 0x5a, sizeof(map));
        load<<<1, 32>>>(map);
        const CUresult expected[] = {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_SUCCESS};
        FAILS(cuCtxSynchronize(), expected[test]);
        (void)cuCtxDestroy(context);
    }
    printf("PASS\n");
    return 0;
}
