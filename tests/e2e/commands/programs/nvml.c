/* A program that is linked with -lnvidia-ml. The prototypes are nvml.h's. */
#include <stdio.h>
#include <string.h>

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct { char busIdLegacy[16]; unsigned domain, bus, device, pciDeviceId, pciSubSystemId; char busId[32]; } nvmlPciInfo_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
unsigned nvmlInit_v2(void);
unsigned nvmlShutdown(void);
const char *nvmlErrorString(unsigned);
unsigned nvmlDeviceGetHandleByIndex_v2(unsigned, nvmlDevice_t *);
unsigned nvmlDeviceGetName(nvmlDevice_t, char *, unsigned);
unsigned nvmlDeviceGetPciInfo_v3(nvmlDevice_t, nvmlPciInfo_t *);
unsigned nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t, nvmlMemory_v2_t *);
unsigned nvmlDeviceGetCudaComputeCapability(nvmlDevice_t, int *, int *);
unsigned nvmlDeviceGetArchitecture(nvmlDevice_t, unsigned *);
unsigned nvmlDeviceGetPowerUsage(nvmlDevice_t, unsigned *);

#define OK(call) do { unsigned r = (call); if (r) { printf("%s: %s\n", #call, nvmlErrorString(r)); return 1; } } while (0)

int main(void) {
    nvmlDevice_t device;
    char name[96], tiny[4];
    nvmlPciInfo_t pci;
    nvmlMemory_v2_t memory = {0};
    int major, minor;
    unsigned architecture, power;
    OK(nvmlInit_v2());
    OK(nvmlDeviceGetHandleByIndex_v2(0, &device));
    OK(nvmlDeviceGetName(device, name, sizeof name));
    if (nvmlDeviceGetName(device, tiny, sizeof tiny) != 7) return 2;
    OK(nvmlDeviceGetPciInfo_v3(device, &pci));
    if (nvmlDeviceGetMemoryInfo_v2(device, &memory) != 25) return 3;
    memory.version = sizeof memory | 2u << 24;
    OK(nvmlDeviceGetMemoryInfo_v2(device, &memory));
    OK(nvmlDeviceGetCudaComputeCapability(device, &major, &minor));
    OK(nvmlDeviceGetArchitecture(device, &architecture));
    if (memory.total == 0 || memory.used != 0 || memory.free != memory.total) return 4;
    printf("%.24s|%s|%s|%d.%d|%u|%s\n", name, pci.busId, pci.busIdLegacy, major, minor, architecture,
           nvmlErrorString(nvmlDeviceGetPowerUsage(device, &power)));
    OK(nvmlShutdown());
    return strcmp(nvmlErrorString(nvmlShutdown()), "Uninitialized") != 0;
}
