// What a program asks about a device: every attribute, names, memory, identifiers, properties of old, peers; and which questions are refused.
#include "../driver.h"

static int attribute(CUdevice_attribute which, CUdevice device) {
    int value = -1;
    OK(cuDeviceGetAttribute(&value, which, device));
    return value;
}

static void attributes(CUdevice device) {
    int known = 0;
    for (int which = 1; which < CU_DEVICE_ATTRIBUTE_MAX; ++which) {
        int value = 0x5a5a5a5a;
        CUresult result = cuDeviceGetAttribute(&value, (CUdevice_attribute)which, device);
        // Numbers that no version ever named are invalid; the others have a value.
        EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE);
        if (result == CUDA_SUCCESS) {
            EXPECT(value != 0x5a5a5a5a);
            ++known;
        } else {
            EXPECT(value == 0x5a5a5a5a);
        }
    }
    EXPECT(known > 120);
    int value;
    FAILS(cuDeviceGetAttribute(&value, (CUdevice_attribute)0, device), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuDeviceGetAttribute(&value, (CUdevice_attribute)100000, device), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device + 1), CUDA_ERROR_INVALID_DEVICE);
    EXPECT(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, device) == 32);
    EXPECT(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device) == 1024);
    EXPECT(attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, device) == 64);
    EXPECT(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, device) == 2147483647);
    EXPECT(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device) == 1);
    EXPECT(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device) == CU_COMPUTEMODE_DEFAULT);
    const int shared = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device);
    EXPECT(shared == 48 * 1024 && attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device) >= shared);
    EXPECT(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device) >= shared);
    EXPECT(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) > 0);
}

static void identity(CUdevice device) {
    char name[256], cut[4] = {'x', 'x', 'x', 'x'};
    OK(cuDeviceGetName(name, sizeof name, device));
    EXPECT(strlen(name) > 3);
    OK(cuDeviceGetName(cut, 3, device));
    EXPECT(!strncmp(cut, name, 2) && !cut[2] && cut[3] == 'x');
    FAILS(cuDeviceGetName(nullptr, 10, device), CUDA_ERROR_INVALID_VALUE);
    CUuuid first, second;
    OK(cuDeviceGetUuid(&first, device));
    OK(cuDeviceGetUuid_v2(&second, device));
    EXPECT(!memcmp(&first, &second, sizeof first));
    unsigned any = 0;
    for (char byte : first.bytes) any |= (unsigned char)byte;
    EXPECT(any);
    // A device is found again by its place on the bus, which its attributes tell, too.
    char bus[32], told[32];
    CUdevice same = -1;
    OK(cuDeviceGetPCIBusId(bus, sizeof bus, device));
    OK(cuDeviceGetByPCIBusId(&same, bus));
    EXPECT(same == device);
    snprintf(told, sizeof told, "%04x:%02x:%02x.0", attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device),
             attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device), attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device));
    for (char* c = bus; *c; ++c)
        if (*c >= 'A' && *c <= 'F') *c += 'a' - 'A';
    EXPECT(!strcmp(bus, told));
    FAILS(cuDeviceGetByPCIBusId(&same, "no bus"), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuDeviceGetPCIBusId(bus, sizeof bus, device + 1), CUDA_ERROR_INVALID_DEVICE);
}

static void older_forms(CUdevice device) {
    int major = 0, minor = 0, peers = 7;
    OK(cuDeviceComputeCapability(&major, &minor, device));
    EXPECT(major == attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    EXPECT(minor == attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    CUdevprop properties;
    OK(cuDeviceGetProperties(&properties, device));
    EXPECT(properties.maxThreadsPerBlock == 1024 && properties.SIMDWidth == 32 && properties.maxThreadsDim[2] == 64);
    EXPECT(properties.sharedMemPerBlock == attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device));
    EXPECT(properties.regsPerBlock == attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, device));
    EXPECT(properties.clockRate == attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device));
    EXPECT(properties.totalConstantMemory == attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, device));
    // A device is no peer of its own.
    OK(cuDeviceCanAccessPeer(&peers, device, device));
    EXPECT(peers == 0);
    FAILS(cuDeviceCanAccessPeer(&peers, device, device + 1), CUDA_ERROR_INVALID_DEVICE);
    size_t width = 0, byte_width = 0;
    OK(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 4, device));
    OK(cuDeviceGetTexture1DLinearMaxWidth(&byte_width, CU_AD_FORMAT_UNSIGNED_INT8, 1, device));
    EXPECT(width > 0 && byte_width >= width);
}

static void memory(CUdevice device) {
    size_t bytes = 0, left = 0, total = 0;
    OK(cuDeviceTotalMem(&bytes, device));
    OK(cuMemGetInfo(&left, &total));
    EXPECT(total <= bytes && left <= total);
    FAILS(cuDeviceTotalMem(nullptr, device), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuDeviceTotalMem(&bytes, device + 1), CUDA_ERROR_INVALID_DEVICE);
    // What is allocated is missing, and what is freed is there again.
    CUdeviceptr blocks[8];
    for (CUdeviceptr& block : blocks) OK(cuMemAlloc(&block, 4 << 20));
    for (CUdeviceptr block : blocks) OK(cuMemsetD32Async(block, 0x01020304, 1 << 20, nullptr));
    size_t now = 0;
    OK(cuMemGetInfo(&now, &total));
    EXPECT(left - now >= 32u << 20);
    unsigned word = 0;
    OK(cuMemcpyDtoH(&word, blocks[7] + (4 << 20) - 4, 4));
    EXPECT(word == 0x01020304);
    for (CUdeviceptr block : blocks) OK(cuMemFree(block));
    OK(cuMemGetInfo(&now, &total));
    EXPECT(now == left);
}

int main() {
    int count = 0;
    CUdevice device = begin();
    OK(cuDeviceGetCount(&count));
    FAILS(cuDeviceGetCount(nullptr), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE);
    FAILS(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
    FAILS(cuDeviceGet(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    attributes(device);
    identity(device);
    older_forms(device);
    memory(device);
    printf("PASS\n");
    return 0;
}
