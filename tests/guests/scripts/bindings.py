"""cuda-bindings, as it comes from PyPI: NVRTC to PTX, modules, launches, copies, graphs, pools and virtual memory."""

import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = r"""
extern "C" __global__ void scale(float *values, float factor, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] *= factor;
}
extern "C" __global__ void add(const float *a, const float *b, float *c, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) c[i] = a[i] + b[i];
}
"""


def check(answer):
    """Unpacks an answer of the bindings; raises when its first element is no success."""
    result, *values = answer
    if int(result) != 0:
        raise RuntimeError(repr(result))
    return values[0] if len(values) == 1 else tuple(values)


def compiled(device):
    major = check(
        driver.cuDeviceGetAttribute(driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
    )
    minor = check(
        driver.cuDeviceGetAttribute(driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
    )
    program = check(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"kernels.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=compute_{major}{minor}".encode()]))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(program))
    check(nvrtc.nvrtcGetPTX(program, ptx))
    return ptx


def read(address, count):
    host = np.zeros(count, dtype=np.float32)
    check(driver.cuMemcpyDtoH(host.ctypes.data, address, host.nbytes))
    return host


def main():
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    context = check(driver.cuDevicePrimaryCtxRetain(device))
    check(driver.cuCtxSetCurrent(context))
    module = check(driver.cuModuleLoadData(compiled(device)))
    scale = check(driver.cuModuleGetFunction(module, b"scale"))
    add = check(driver.cuModuleGetFunction(module, b"add"))
    stream = check(driver.cuStreamCreate(0))

    count = 10_000
    values = np.arange(count, dtype=np.float32)
    a = check(driver.cuMemAlloc(values.nbytes))
    b = check(driver.cuMemAlloc(values.nbytes))
    check(driver.cuMemcpyHtoDAsync(a, values.ctypes.data, values.nbytes, stream))
    check(driver.cuMemcpyDtoDAsync(b, a, values.nbytes, stream))
    parameters = ((int(a), 2.0, count), (ctypes.c_void_p, ctypes.c_float, ctypes.c_int))
    check(driver.cuLaunchKernel(scale, -(-count // 256), 1, 1, 256, 1, 1, 0, stream, parameters, 0))
    check(driver.cuStreamSynchronize(stream))
    assert np.array_equal(read(a, count), values * 2)
    print("launch")

    check(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    sums = ((int(a), int(b), int(a), count), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
    check(driver.cuLaunchKernel(add, 8, 1, 1, 128, 1, 1, 0, stream, sums, 0))
    graph = check(driver.cuStreamEndCapture(stream))
    executable = check(driver.cuGraphInstantiate(graph, 0))
    for _ in range(3):
        check(driver.cuGraphLaunch(executable, stream))
    check(driver.cuStreamSynchronize(stream))
    assert np.array_equal(read(a, count), values * 5)
    print("graph")

    pool = check(driver.cuDeviceGetDefaultMemPool(device))
    c = check(driver.cuMemAllocFromPoolAsync(values.nbytes, pool, stream))
    check(driver.cuMemsetD32Async(c, 0x3F800000, count, stream))
    assert np.array_equal(read(c, count), np.ones(count, dtype=np.float32))
    check(driver.cuMemFreeAsync(c, stream))
    print("pool")

    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = int(device)
    minimum = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    granularity = check(driver.cuMemGetAllocationGranularity(properties, minimum))
    base = check(driver.cuMemAddressReserve(2 * granularity, 0, 0, 0))
    handle = check(driver.cuMemCreate(granularity, properties, 0))
    access = driver.CUmemAccessDesc()
    access.location = properties.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    for part in range(2):
        check(driver.cuMemMap(int(base) + part * granularity, granularity, 0, handle, 0))
    check(driver.cuMemSetAccess(base, 2 * granularity, [access], 1))
    check(driver.cuMemcpyHtoD(base, values.ctypes.data, values.nbytes))
    assert np.array_equal(read(int(base) + granularity, count), values)
    for part in range(2):
        check(driver.cuMemUnmap(int(base) + part * granularity, granularity))
    check(driver.cuMemRelease(handle))
    check(driver.cuMemAddressFree(base, 2 * granularity))
    print("virtual memory")

    broken = b".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() { nonsense %r1; ret; }\0"
    log = b" " * 1024
    options = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER, driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    result, _ = driver.cuModuleLoadDataEx(broken, 2, options, [log, len(log)])
    assert result == driver.CUresult.CUDA_ERROR_INVALID_PTX, result
    assert b"line 4" in log, log
    print("invalid PTX")
    check(driver.cuModuleUnload(module))
    check(driver.cuDevicePrimaryCtxRelease(device))


main()
print("PASS")
