"""cuda-core, as it comes from PyPI: programs, kernels, buffers, streams, events, graphs and memory resources."""

import numpy as np
from cuda.core import Device, EventOptions, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
template <typename T> __global__ void scale(T *values, T factor, unsigned long long count) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < count) values[i] *= factor;
}
"""


def main():
    device = Device()
    device.set_current()
    stream = device.create_stream()
    architecture = "".join(map(str, device.compute_capability))
    program = Program(SOURCE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"compute_{architecture}"))
    module = program.compile("ptx", name_expressions=("scale<float>", "scale<int>"))
    kernel = module.get_kernel("scale<float>")
    print("compiled")

    count = 4096
    values = np.arange(count, dtype=np.float32)
    buffer = device.memory_resource.allocate(values.nbytes, stream=stream)
    pinned = np.empty_like(values)
    from cuda.bindings import driver

    driver.cuMemcpyHtoDAsync(buffer.handle, values.ctypes.data, values.nbytes, stream.handle)
    start, end = (device.create_event(EventOptions(timing_enabled=True)) for _ in range(2))
    stream.record(start)
    config = LaunchConfig(grid=count // 128, block=128)
    for _ in range(3):
        launch(stream, config, kernel, int(buffer.handle), np.float32(2), np.uint64(count))
    stream.record(end)
    stream.sync()
    assert end - start >= 0
    driver.cuMemcpyDtoH(pinned.ctypes.data, buffer.handle, values.nbytes)
    assert np.array_equal(pinned, values * 8)
    print("launched")

    builder = stream.create_graph_builder()
    builder.begin_building()
    launch(builder, config, kernel, int(buffer.handle), np.float32(0.5), np.uint64(count))
    graph = builder.end_building().complete()
    for _ in range(3):
        graph.launch(stream)
    stream.sync()
    driver.cuMemcpyDtoH(pinned.ctypes.data, buffer.handle, values.nbytes)
    assert np.array_equal(pinned, values)
    print("graph")
    other = device.memory_resource.allocate(values.nbytes, stream=stream)
    other.copy_from(buffer, stream=stream)
    stream.sync()
    driver.cuMemcpyDtoH(pinned.ctypes.data, other.handle, values.nbytes)
    assert np.array_equal(pinned, values)
    other.close(stream)
    buffer.close(stream)
    print("buffers")


main()
print("PASS")
