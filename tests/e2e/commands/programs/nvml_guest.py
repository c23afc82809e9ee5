"""Uses NVML by ctypes before CUDA, then beside it; prints what the test compares."""

import ctypes
import os
import subprocess

nvml = ctypes.CDLL("libnvidia-ml.so.1")
number, handle = ctypes.c_uint(), ctypes.c_void_p()
text = ctypes.create_string_buffer(96)


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu", ctypes.c_uint),
        ("compute", ctypes.c_uint),
    ]


def nvml_ok(result: int) -> None:
    assert result == 0, result


def cuda_ok(result: int) -> None:
    assert result == 0, result


def processes() -> list[tuple[int, int]]:
    count = ctypes.c_uint(8)
    infos = (Process * 8)()
    nvml_ok(nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), infos))
    return [(infos[at].pid, infos[at].memory) for at in range(count.value)]


def memory() -> Memory:
    place = Memory()
    nvml_ok(nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(place)))
    assert place.free + place.used == place.total
    return place


assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(number)) == 1  # uninitialized
nvml_ok(nvml.nvmlInit_v2())
nvml_ok(nvml.nvmlInitWithFlags(0))
nvml_ok(nvml.nvmlShutdown())
nvml_ok(nvml.nvmlDeviceGetCount_v2(ctypes.byref(number)))
assert number.value == 1
assert nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(handle)) == 2
nvml_ok(nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)))
assert nvml.nvmlDeviceGetTemperature(handle, 0, ctypes.byref(number)) == 3
assert processes() == []  # no session for NVML
assert memory().used == 0

cuda = ctypes.CDLL("libcuda.so.1")
device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_ulonglong()
cuda_ok(cuda.cuInit(0))
cuda_ok(cuda.cuDeviceGet(ctypes.byref(device), 0))
cuda_ok(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device))
cuda_ok(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20)))
assert memory().used == 64 << 20  # nothing waits for the allocation
assert processes() == [(os.getpid(), 64 << 20)]
nvml_ok(nvml.nvmlSystemGetProcessName(os.getpid(), text, 96))
print("process", text.value.decode())
total = ctypes.c_size_t()
cuda_ok(cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device))
assert memory().total == total.value

raw = (ctypes.c_ubyte * 16)()
cuda_ok(cuda.cuDeviceGetUuid(ctypes.byref(raw), device))
nvml_ok(nvml.nvmlDeviceGetUUID(handle, text, 96))
assert text.value.decode().removeprefix("GPU-").replace("-", "") == bytes(raw).hex()
same = ctypes.c_void_p()
nvml_ok(nvml.nvmlDeviceGetHandleByUUID(text, ctypes.byref(same)))
assert same.value == handle.value
cuda_ok(cuda.cuDeviceGetPCIBusId(text, 96, device))
same = ctypes.c_void_p()
nvml_ok(nvml.nvmlDeviceGetHandleByPciBusId_v2(text, ctypes.byref(same)))
assert same.value == handle.value
assert nvml.nvmlDeviceGetHandleByUUID(b"GPU-0", ctypes.byref(same)) == 6

usage = (ctypes.c_uint * 2)()
nvml_ok(nvml.nvmlDeviceGetUtilizationRates(handle, usage))
assert 0 <= usage[0] <= 100
for turn in range(400):
    cuda_ok(cuda.cuMemsetD8_v2(address, 7, ctypes.c_size_t(64 << 20)))
    cuda_ok(cuda.cuCtxSynchronize())
    if turn % 40 == 39:
        nvml_ok(nvml.nvmlDeviceGetUtilizationRates(handle, usage))
        if usage[0]:
            break
assert 0 < usage[0] <= 100, usage[0]
version = ctypes.c_int()
nvml_ok(nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version)))
cuda_version = ctypes.c_int()
cuda_ok(cuda.cuDriverGetVersion(ctypes.byref(cuda_version)))
assert version.value == cuda_version.value
for query in ("--query-compute-apps=pid,used_memory", "--query-gpu=memory.used,compute_cap"):
    done = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True
    )
    print(done.stdout.strip().replace(str(os.getpid()), "pid"))
nvml_ok(nvml.nvmlShutdown())
assert nvml.nvmlShutdown() == 1
print("PASS")
