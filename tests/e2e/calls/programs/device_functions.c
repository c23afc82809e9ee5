// Device, error and version functions: prints what they answer, one line per question.
#include <stdio.h>
#include <string.h>
#include <cuda_runtime_api.h>

#define SHOW(call) printf("%s = %d\n", #call, (int)(call))
#define NUMBER(call, variable) (value = -7, printf("%s = %d ", #call, (int)(call)), printf("%lld\n", (long long)(variable)))

int main(void) {
    long long value = 0;
    int number = 0, other = 0;
    unsigned flags = 0;
    size_t size = 0;
    char text[32];
    struct cudaDeviceProp prop;
    (void)value;

    NUMBER(cudaGetDeviceCount(&number), number);
    NUMBER(cudaGetDevice(&number), number);
    SHOW(cudaSetDevice(0));
    SHOW(cudaSetDevice(1));
    SHOW(cudaSetDevice(-1));
    SHOW(cudaGetDeviceCount(0));
    SHOW(cudaPeekAtLastError());
    SHOW(cudaGetLastError());
    SHOW(cudaGetLastError());

    // Every attribute and the properties made of them must say the same.
    memset(&prop, 0x5a, sizeof prop);
    SHOW(cudaGetDeviceProperties(&prop, 0));
    SHOW(cudaGetDeviceProperties(&prop, 1));
    SHOW(cudaGetDeviceProperties(0, 0));
#define SAME(attribute, field) \
    (cudaDeviceGetAttribute(&number, attribute, 0), (long long)(field) == number ? 0 : printf("%s differs\n", #field))
    SAME(cudaDevAttrMaxThreadsPerBlock, prop.maxThreadsPerBlock);
    SAME(cudaDevAttrMaxBlockDimZ, prop.maxThreadsDim[2]);
    SAME(cudaDevAttrMaxGridDimX, prop.maxGridSize[0]);
    SAME(cudaDevAttrMaxSharedMemoryPerBlock, prop.sharedMemPerBlock);
    SAME(cudaDevAttrMaxSharedMemoryPerBlockOptin, prop.sharedMemPerBlockOptin);
    SAME(cudaDevAttrWarpSize, prop.warpSize);
    SAME(cudaDevAttrMaxRegistersPerBlock, prop.regsPerBlock);
    SAME(cudaDevAttrMultiProcessorCount, prop.multiProcessorCount);
    SAME(cudaDevAttrComputeCapabilityMajor, prop.major);
    SAME(cudaDevAttrComputeCapabilityMinor, prop.minor);
    SAME(cudaDevAttrL2CacheSize, prop.l2CacheSize);
    SAME(cudaDevAttrMaxSurfaceCubemapLayeredLayers, prop.maxSurfaceCubemapLayered[1]);
    SAME(cudaDevAttrReservedSharedMemoryPerBlock, prop.reservedSharedMemPerBlock);
    SAME(cudaDevAttrManagedMemory, prop.managedMemory);
    SAME(cudaDevAttrMemoryPoolsSupported, prop.memoryPoolsSupported);
    printf("unused: %d %d\n", prop.reserved[0], prop.unifiedFunctionPointers);
    printf("name: %.7s, compute %d.%d, managed %d, pools %d\n", prop.name, prop.major, prop.minor, prop.managedMemory,
           prop.memoryPoolsSupported);
    printf("memory: %d\n", prop.totalGlobalMem > 0);
    SHOW(cudaDeviceGetAttribute(&number, (enum cudaDeviceAttr)100000, 0));
    SHOW(cudaDeviceGetAttribute(&number, (enum cudaDeviceAttr)0, 0));
    SHOW(cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 3));
    SHOW(cudaDeviceGetAttribute(0, cudaDevAttrWarpSize, 0));

    memset(&prop, 0, sizeof prop);
    NUMBER(cudaChooseDevice(&number, &prop), number);
    SHOW(cudaDeviceGetPCIBusId(text, sizeof text, 0));
    SHOW(cudaDeviceGetPCIBusId(text, 3, 0));
    NUMBER(cudaDeviceGetByPCIBusId(&number, text), number);
    SHOW(cudaDeviceGetByPCIBusId(&number, "ffff:fe:1d.0"));
    SHOW(cudaDeviceGetByPCIBusId(&number, "nonsense"));

    NUMBER(cudaGetDeviceFlags(&flags), flags);
    SHOW(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    NUMBER(cudaGetDeviceFlags(&flags), flags);
    SHOW(cudaSetDeviceFlags(3));
    SHOW(cudaInitDevice(0, 0, 0));
    SHOW(cudaInitDevice(0, 0, 2));
    NUMBER(cudaDeviceGetLimit(&size, cudaLimitStackSize), size);
    SHOW(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    NUMBER(cudaDeviceGetLimit(&size, cudaLimitStackSize), size);
    SHOW(cudaDeviceSetLimit(cudaLimitStackSize, 1 << 30));
    SHOW(cudaDeviceSetLimit(cudaLimitDevRuntimeSyncDepth, 2));
    SHOW(cudaDeviceSetCacheConfig(cudaFuncCachePreferShared));
    NUMBER(cudaDeviceGetCacheConfig((enum cudaFuncCache *)&number), number);
    SHOW(cudaDeviceSetCacheConfig((enum cudaFuncCache)4));
    NUMBER(cudaDeviceGetSharedMemConfig((enum cudaSharedMemConfig *)&number), number);
    SHOW(cudaDeviceGetStreamPriorityRange(&number, &other));
    printf("priorities: %d %d\n", number, other);
    SHOW(cudaDeviceGetStreamPriorityRange(0, 0));

    NUMBER(cudaDeviceCanAccessPeer(&number, 0, 0), number);
    SHOW(cudaDeviceCanAccessPeer(&number, 0, 1));
    SHOW(cudaDeviceEnablePeerAccess(0, 0));
    SHOW(cudaDeviceDisablePeerAccess(1));
    SHOW(cudaDeviceGetP2PAttribute(&number, cudaDevP2PAttrAccessSupported, 0, 0));
    number = 0;
    SHOW(cudaSetValidDevices(&number, 1));
    SHOW(cudaSetValidDevices(&number, 2));
    SHOW(cudaDeviceSynchronize());
    SHOW(cudaDeviceReset());
    NUMBER(cudaDeviceGetLimit(&size, cudaLimitStackSize), size);
    NUMBER(cudaGetDeviceFlags(&flags), flags);
    SHOW(cudaGetLastError());
    SHOW(cudaGetLastError());
    return 0;
}
