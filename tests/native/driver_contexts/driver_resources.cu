// The parts of a device: all multiprocessors as one part, of the device, of a context, of a stream; what is no such part is refused.
#include "../driver.h"

#if CUDA_VERSION < 13010
extern "C" CUresult cuStreamGetDevResource(CUstream stream, CUdevResource* resource, CUdevResourceType type);
#endif

static CUdevResource blank() {
    CUdevResource resource;
    memset(&resource, 0x5a, sizeof resource);
    return resource;
}

static void check(const CUdevResource& resource, unsigned all) {
    EXPECT(resource.type == CU_DEV_RESOURCE_TYPE_SM);
    EXPECT(resource.sm.smCount == all);
#if CUDA_VERSION >= 13000
    EXPECT(resource.sm.minSmPartitionSize >= 1 && resource.sm.minSmPartitionSize <= all);
    EXPECT(resource.sm.smCoscheduledAlignment >= 1 && resource.sm.smCoscheduledAlignment <= all);
#endif
}

int main() {
    CUdevice device = begin();
    int all = 0;
    OK(cuDeviceGetAttribute(&all, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));

    CUdevResource resource = blank();
    OK(cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM));
    check(resource, all);
    FAILS(cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_INVALID), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    FAILS(cuDeviceGetDevResource(device, nullptr, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuDeviceGetDevResource(device + 1, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_DEVICE);

    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    resource = blank();
    OK(cuCtxGetDevResource(context, &resource, CU_DEV_RESOURCE_TYPE_SM));
    check(resource, all);
    FAILS(cuCtxGetDevResource((CUcontext)&resource, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_CONTEXT);

    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (CUstream each : {stream, (CUstream)0}) {
        resource = blank();
        OK(cuStreamGetDevResource(each, &resource, CU_DEV_RESOURCE_TYPE_SM));
        check(resource, all);
    }
    FAILS(cuStreamGetDevResource(stream, &resource, (CUdevResourceType)10000), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    OK(cuStreamDestroy(stream));
    FAILS(cuStreamGetDevResource(stream, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_HANDLE);
    printf("PASS\n");
    return 0;
}
