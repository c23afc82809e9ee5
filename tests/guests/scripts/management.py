"""nvidia-ml-py as tools call it, before and beside a CUDA context."""

import os

import pynvml
from cuda.bindings import driver

pynvml.nvmlInit()
assert pynvml.nvmlDeviceGetCount() == 1
device = pynvml.nvmlDeviceGetHandleByIndex(0)
print(pynvml.nvmlDeviceGetName(device).split(" (")[0])
assert pynvml.nvmlDeviceGetComputeRunningProcesses(device) == []
assert pynvml.nvmlDeviceGetMemoryInfo(device).used == 0
assert pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2).used == 0
assert 0 <= pynvml.nvmlDeviceGetUtilizationRates(device).gpu <= 100
assert pynvml.nvmlDeviceGetArchitecture(device) == pynvml.NVML_DEVICE_ARCH_BLACKWELL
for absent in (
    pynvml.nvmlDeviceGetPowerUsage,
    pynvml.nvmlDeviceGetMigMode,
    pynvml.nvmlDeviceGetSerial,
    pynvml.nvmlDeviceGetFanSpeed,
):
    try:
        absent(device)
    except pynvml.NVMLError_NotSupported:
        continue
    raise AssertionError(absent.__name__)
print("device")

assert driver.cuInit(0)[0] == 0
error, context = driver.cuDevicePrimaryCtxRetain(0)
assert error == 0
assert driver.cuCtxSetCurrent(context)[0] == 0
error, address = driver.cuMemAlloc(1 << 20)
assert error == 0
assert driver.cuCtxSynchronize()[0] == 0
(process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
assert (process.pid, process.usedGpuMemory) == (os.getpid(), 1 << 20)
assert pynvml.nvmlDeviceGetMemoryInfo(device).used == 1 << 20
assert pynvml.nvmlSystemGetCudaDriverVersion() == driver.cuDriverGetVersion()[1]
error, uuid = driver.cuDeviceGetUuid(0)
assert pynvml.nvmlDeviceGetUUID(device).replace("-", "") == "GPU" + uuid.bytes.hex()
error, bus = driver.cuDeviceGetPCIBusId(16, 0)
assert pynvml.nvmlDeviceGetPciInfo(device).busIdLegacy == bus.split(b"\0")[0].decode()
print("session")
pynvml.nvmlShutdown()
print("PASS")
