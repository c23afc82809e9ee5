// What the programs with tensor copies share: cuTensorMapEncodeTiled as programs of the runtime API find it, and a short form of it.
#pragma once

#include <cuda.h>

#include "../support.cuh"

inline PFN_cuTensorMapEncodeTiled_v12000 encode_tiled() {
    static PFN_cuTensorMapEncodeTiled_v12000 found = [] {
        void *function = nullptr;
        cudaDriverEntryPointQueryResult result;
        CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result));
        return result == cudaDriverEntryPointSuccess ? (PFN_cuTensorMapEncodeTiled_v12000)function : nullptr;
    }();
    return found;
}

// A map of a dense tensor: sizes and box from the innermost axis on. `pitch` is the bytes from row to row, if there are more than its elements have.
inline CUtensorMap tiled(CUtensorMapDataType type, int bytes, void *address, std::vector<cuuint64_t> sizes, std::vector<cuuint32_t> box,
                         CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE, cuuint64_t pitch = 0) {
    std::vector<cuuint64_t> strides;
    cuuint64_t stride = pitch ? pitch : sizes[0] * bytes;
    for (size_t axis = 1; axis < sizes.size(); ++axis) {
        strides.push_back(stride);
        stride *= sizes[axis];
    }
    std::vector<cuuint32_t> steps(sizes.size(), 1);
    static CUtensorMap map;  // what compilers make of a returned object's place is not always aligned
    CUresult result = encode_tiled()(&map, type, sizes.size(), address, sizes.data(), strides.data(), box.data(), steps.data(),
                                     CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        std::printf("cuTensorMapEncodeTiled returned %d\nFAIL\n", (int)result);
        std::exit(1);
    }
    return map;
}
