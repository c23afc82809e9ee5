// Libraries and kernels: a CUkernel is passed wherever a CUfunction is, and the runtime's handles are the same objects.
#include <cuda_runtime.h>

#include "../driver.h"

static const char* TEXT = PTX_HEADER ".visible .global .align 8 .u64 table[3];\n" PTX_SCALE PTX_FILL;

__global__ void stub(int* data, int value) { data[threadIdx.x] = value - threadIdx.x; }

int main() {
    CUdevice device = begin();
    CUlibrary library, none;
    CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
    OK(cuLibraryLoadData(&library, TEXT, nullptr, nullptr, 0, &preserved, nullptr, 1));
    FAILS(cuLibraryLoadData(&none, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    CUkernel fill, scale;
    CUfunction function;
    OK(cuLibraryGetKernel(&fill, library, "fill"));
    OK(cuLibraryGetKernel(&scale, library, "scale"));
    FAILS(cuLibraryGetKernel(&scale, library, "nothing"), CUDA_ERROR_NOT_FOUND);
    OK(cuKernelGetFunction(&function, fill));
    CUfunctionLoadingState state;
    OK(cuFuncIsLoaded(&state, function));
    if (on_farlane()) EXPECT(state == CU_FUNCTION_LOADING_STATE_UNLOADED);
    OK(cuFuncLoad(function));
    OK(cuFuncIsLoaded(&state, function));
    EXPECT(state == CU_FUNCTION_LOADING_STATE_LOADED);

    CUdeviceptr data;
    int ints[32], value = 5;
    OK(cuMemAlloc(&data, sizeof ints));
    void* parameters[] = {&data, &value};
    OK(cuLaunchKernel((CUfunction)fill, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    OK(cuMemcpyDtoH(ints, data, sizeof ints));
    EXPECT(ints[31] == 36);
    value = 6;
    OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    OK(cuMemcpyDtoH(ints, data, sizeof ints));
    EXPECT(ints[31] == 37);
    EXPECT(cudaLaunchKernel((void*)fill, dim3(1), dim3(32), parameters, 0, nullptr) == cudaSuccess);

    CUmodule module, of_function;
    OK(cuLibraryGetModule(&module, library));
    if (on_farlane()) OK(cuFuncGetModule(&of_function, (CUfunction)fill));
    if (on_farlane()) EXPECT(module == of_function);
    OK(cuModuleGetFunction(&function, module, "scale"));
    if (on_farlane()) EXPECT(function == (CUfunction)scale);
    FAILS(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
    unsigned count = 0;
    CUkernel kernels[2];
    OK(cuLibraryGetKernelCount(&count, library));
    OK(cuLibraryEnumerateKernels(kernels, 2, library));
    EXPECT(count == 2 && kernels[0] == fill && kernels[1] == scale);
    CUdeviceptr table;
    size_t bytes;
    OK(cuLibraryGetGlobal(&table, &bytes, library, "table"));
    EXPECT(bytes == 24 && table);
    FAILS(cuLibraryGetManaged(&table, &bytes, library, "table"), CUDA_ERROR_NOT_FOUND);

    const char* name;
    OK(cuKernelGetName(&name, scale));
    EXPECT(!strcmp(name, "scale"));
    size_t offset, size;
    OK(cuKernelGetParamInfo(scale, 2, &offset, &size));
    EXPECT(offset == 12 && size == 4);
    FAILS(cuKernelGetParamInfo(scale, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    int threads = 0;
    OK(cuKernelGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, scale, device));
    EXPECT(threads == 1024);
    OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, scale, device));
    OK(cuKernelGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, scale, device));
    EXPECT(threads == 60000);
    FAILS(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1, scale, 7), CUDA_ERROR_INVALID_DEVICE);
    OK(cuKernelSetCacheConfig(scale, CU_FUNC_CACHE_PREFER_L1, device));
    CUlibrary owner;
    OK(cuKernelGetLibrary(&owner, scale));
    EXPECT(owner == library);

    // A kernel of the runtime's, launched by the driver API.
    cudaKernel_t of_runtime;
    cudaFunction_t symbol;
    EXPECT(cudaGetKernel(&of_runtime, (const void*)stub) == cudaSuccess);
    EXPECT(cudaGetFuncBySymbol(&symbol, (const void*)stub) == cudaSuccess);
    OK(cuLaunchKernel((CUfunction)of_runtime, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    OK(cuMemcpyDtoH(ints, data, sizeof ints));
    EXPECT(ints[31] == 6 - 31);
    value = 60;
    OK(cuLaunchKernel(symbol, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    OK(cuMemcpyDtoH(ints, data, sizeof ints));
    EXPECT(ints[31] == 60 - 31);

    // And a library of the runtime's, read by the driver API.
    cudaLibrary_t loaded;
    EXPECT(cudaLibraryLoadData(&loaded, TEXT, nullptr, nullptr, 0, nullptr, nullptr, 0) == cudaSuccess);
    OK(cuLibraryGetKernel(&fill, loaded, "fill"));
    OK(cuLibraryUnload(loaded));
    FAILS(cuLaunchKernel((CUfunction)fill, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr), CUDA_ERROR_INVALID_HANDLE);
    OK(cuLibraryUnload(library));
    if (on_farlane()) FAILS(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
    if (on_farlane()) FAILS(cuLibraryGetKernel(&scale, library, "scale"), CUDA_ERROR_INVALID_HANDLE);
    printf("PASS\n");
    return 0;
}
