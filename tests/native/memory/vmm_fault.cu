// A kernel's access to reserved addresses that it may not access: the argument says why it may not. It ruins the context.
#include "virtual_memory.cuh"

__global__ void store(int* place) { *place = 1; }

int main(int count, char** arguments) {
    EXPECT(count == 2);
    const char* why = arguments[1];
    OK(start());
    CUmemAllocationProp prop = on_device();
    size_t granule;
    OK(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUdeviceptr base;
    CUmemGenericAllocationHandle handle;
    OK(cuMemAddressReserve(&base, 2 * granule, 0, 0, 0));
    OK(cuMemCreate(&handle, granule, &prop, 0));
    OK(cuMemMap(base, granule, 0, handle, 0));
    OK(allow(base, granule));
    store<<<1, 1>>>((int*)base);
    OK(cuCtxSynchronize());
    CUdeviceptr bad = base;
    if (!strcmp(why, "reserved")) bad = base + granule;
    if (!strcmp(why, "unmapped")) OK(cuMemUnmap(base, granule));
    if (!strcmp(why, "no_access")) OK(allow(base, granule, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    if (!strcmp(why, "read_only")) OK(allow(base, granule, CU_MEM_ACCESS_FLAGS_PROT_READ));
    store<<<1, 1>>>((int*)bad);
    EXPECT(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cuMemRelease(handle) == CUDA_ERROR_ILLEGAL_ADDRESS);
    int one;
    EXPECT(cudaMemcpy(&one, (void*)base, 4, cudaMemcpyDeviceToHost) == cudaErrorIllegalAddress);
    printf("PASS\n");
    return 0;
}
