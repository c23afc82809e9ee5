"""The real driver's module, on a libcuda whose functions are ctypes callbacks of the declared types, and on stand-ins for CuPy's functions that take
exactly the parameters that CuPy 13.6 and 14.2 give in their signatures."""

from __future__ import annotations

import ctypes
import inspect
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from farlane.backend.device.base import LaunchShape
from farlane.backend.device.gpu.driver import prototypes
from farlane.backend.device.gpu.driver.cuda import CudaDriver
from farlane.backend.device.gpu.driver.interface import (
    ArrayFormat,
    ArraySpec,
    BoxEnd,
    BoxWork,
    CopyWork,
    Direction,
    Driver,
    DriverError,
    KernelWork,
    Missing,
    Parameter,
    SetWork,
    TexelSource,
    TextureSpec,
)
from farlane.backend.device.gpu.driver.structures import launch_configuration
from farlane.backend.device.tensors import TensorMap

# As `help()` shows them for CuPy 13.6.0 and 14.2.0, which agree on all of these: the number of parameters, and what comes back.
CUPY = {
    "driver": {
        "ctxSetCurrent": (1, None), "launchKernel": (11, None),
        "moduleLoadData": (1, 50), "moduleGetFunction": (2, 51), "moduleUnload": (1, None),
        "funcGetAttribute": (2, 52), "funcSetAttribute": (3, None), "linkCreate": (0, 53), "linkAddData": (4, None),
        "linkComplete": (1, b"cubin"), "linkDestroy": (1, None),
    },
    "runtime": {
        "memGetInfo": (0, (5, 6)), "deviceSetLimit": (2, None), "hostAlloc": (2, 60), "freeHost": (1, None),
        "memcpyAsync": (5, None), "memcpy2DAsync": (8, None), "runtimeGetVersion": (0, 13020),
        "streamDestroy": (1, None), "streamSynchronize": (1, None), "streamWaitEvent": (2, None),
        "eventCreateWithFlags": (1, 62), "eventDestroy": (1, None), "eventRecord": (2, None),
        "eventSynchronize": (1, None), "eventElapsedTime": (2, 1.5),
    },
}  # fmt: skip
KERNEL = KernelWork(1 << 40, (1, 2, 3), (4, 5, 6), 7, 8)
COOPERATIVE = LaunchShape((1, 2, 3), (4, 5, 6), 7, cooperative=True)
TENSOR = TensorMap(1 << 45, 7, 0, 2, 0, 1, (64, 32), (256,), (1, 1), (16, 8), None)
IMAGES = TENSOR._replace(
    sizes=(8, 9, 9, 4), strides=(32, 288, 2592), steps=(1, 1, 1, 1), box=(8, 64), corners=((-1, -1), (0, 0))
)
SET = SetWork(1 << 45, 512, 0xABCD, 2, 10, 3)
COPY = CopyWork(1 << 45, 64, 1 << 44, 32, 16, 2)
ARRAY = ArraySpec(16, 8, 0, ArrayFormat.HALF, 4, 3)
BOX = BoxWork(BoxEnd(array=1 << 40, x=8, y=2, z=3), BoxEnd(address=1 << 41, pitch=96, host=True), 64, 5)
SPEC = TextureSpec((0, 1, 3), True, 2, 8, (0.5, 0.0, 1.0, 0.25))
# A call of every method, and the C function or CuPy's that it must end in.
CALLS: list[tuple[str, tuple[Any, ...], str]] = [
    ("version", (), "cuDriverGetVersion"), ("count", (), "cuDeviceGetCount"), ("properties", (0,), "cuDeviceTotalMem_v2"),
    ("attribute", (0, 102), "cuDeviceGetAttribute"), ("retain", (0,), "cuDevicePrimaryCtxRetain"),
    ("release", (0,), "cuDevicePrimaryCtxRelease_v2"), ("reset", (0,), "cuDevicePrimaryCtxReset_v2"),
    ("set_current", (5,), "ctxSetCurrent"), ("synchronize", (), "cuCtxSynchronize"), ("memory_info", (), "memGetInfo"),
    ("set_limit", (0, 1024), "deviceSetLimit"), ("granularity", (0,), "cuMemGetAllocationGranularity"),
    ("reserve", (1 << 36, 2 << 20, 1 << 45), "cuMemAddressReserve"), ("unreserve", (1 << 45, 1 << 36), "cuMemAddressFree"),
    ("create", (2 << 20, 0), "cuMemCreate"), ("destroy", (9,), "cuMemRelease"), ("map", (1 << 45, 2 << 20, 9), "cuMemMap"),
    ("unmap", (1 << 45, 2 << 20), "cuMemUnmap"), ("allow", (1 << 45, 2 << 20, 0), "cuMemSetAccess"),
    ("allocate", (4096,), "cuMemAlloc_v2"), ("free", (1 << 45,), "cuMemFree_v2"), ("allocate_pinned", (4096,), "hostAlloc"),
    ("free_pinned", (60,), "freeHost"), ("copy", (1, 2, 3, Direction.TO_HOST, 4), "memcpyAsync"),
    ("copy_rows", (1, 2, 3, 4, 5, 6, Direction.WITHIN, 7), "memcpy2DAsync"), ("set", (SET, 4), "cuMemsetD2D16Async"),
    ("set", (SET._replace(height=1), 4), "cuMemsetD16Async"), ("set", (SET._replace(element=1, value=7), 4), "cuMemsetD2D8Async"),
    ("set", (SET._replace(element=1, value=7, height=1), 4), "cuMemsetD8Async"),
    ("set", (SET._replace(element=4), 4), "cuMemsetD2D32Async"),
    ("set", (SET._replace(element=4, height=1), 4), "cuMemsetD32Async"),
    ("launch", (1, (1, 1, 1), (2, 2, 2), 0, 4, 5, 0), "launchKernel"),
    ("launch_with_attributes", (1, COOPERATIVE, 4, 5, 0), "cuLaunchKernelEx"),
    ("load_module", (b"image",), "moduleLoadData"), ("link", ([b"\x50\xed\x55\xba", b".version", b"\x7fELF"],), "linkComplete"),
    ("unload_module", (50,), "moduleUnload"), ("function", (50, "kernel"), "moduleGetFunction"),
    ("variable", (50, "counter"), "cuModuleGetGlobal_v2"), ("parameters", (51,), "cuFuncGetParamInfo"),
    ("function_attribute", (51, 8), "funcGetAttribute"), ("set_function_attribute", (51, 8, 4096), "funcSetAttribute"),
    ("create_stream", (1, -1), "cuStreamCreateWithPriority"), ("destroy_stream", (61,), "streamDestroy"),
    ("synchronize_stream", (61,), "streamSynchronize"), ("stream_done", (61,), "cuStreamQuery"),
    ("wait_event", (61, 62), "streamWaitEvent"), ("create_event", (2,), "eventCreateWithFlags"),
    ("destroy_event", (62,), "eventDestroy"), ("record_event", (62, 61), "eventRecord"),
    ("synchronize_event", (62,), "eventSynchronize"), ("event_done", (62,), "cuEventQuery"),
    ("elapsed_ms", (62, 63), "eventElapsedTime"), ("create_array", (ARRAY,), "cuArray3DCreate_v2"),
    ("destroy_array", (70,), "cuArrayDestroy"), ("copy_box", (BOX, 61), "cuMemcpy3DAsync_v2"),
    ("create_texture", (TexelSource(array=70), SPEC), "cuTexObjectCreate"), ("destroy_texture", (71,), "cuTexObjectDestroy"),
    ("encode_tensor", (TENSOR,), "cuTensorMapEncodeTiled"), ("encode_tensor", (IMAGES,), "cuTensorMapEncodeIm2col"),
    ("move_tensor", (bytes(128), 1 << 45), "cuTensorMapReplaceAddress"),
    ("create_surface", (70,), "cuSurfObjectCreate"), ("destroy_surface", (72,), "cuSurfObjectDestroy"), ("create_graph", (), "cuGraphCreate"), ("destroy_graph", (1,), "cuGraphDestroy"),
    ("add_kernel", (1, None, KERNEL), "cuGraphAddKernelNode_v2"), ("add_kernel", (1, 2, KERNEL), "cuGraphAddKernelNode_v2"),
    ("add_set", (1, 2, SET, 5), "cuGraphAddMemsetNode"), ("add_copy", (1, 2, COPY, 5), "cuGraphAddMemcpyNode"),
    ("instantiate", (1,), "cuGraphInstantiateWithFlags"), ("destroy_executable", (1,), "cuGraphExecDestroy"),
    ("change_kernel", (1, 2, KERNEL), "cuGraphExecKernelNodeSetParams_v2"),
    ("change_set", (1, 2, SET, 5), "cuGraphExecMemsetNodeSetParams"),
    ("change_copy", (1, 2, COPY, 5), "cuGraphExecMemcpyNodeSetParams"),
    ("error", (700, "cuLaunchKernel"), "cuGetErrorString"),
]  # fmt: skip


class Library:
    """A libcuda of callbacks: each takes the declared types, writes a number through every pointer to one, and records."""

    def __init__(self, seen: list[tuple[str, tuple[Any, ...]]], lacks: frozenset[str] = frozenset()) -> None:
        self.codes: dict[str, int] = {}
        self._kept = []
        for name, kinds in prototypes.FUNCTIONS.items():
            if name in lacks:
                continue
            function = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(self._made(name, kinds, seen))
            self._kept.append(function)
            setattr(self, name, function)

    def _made(self, name: str, kinds: tuple[Any, ...], seen: list[tuple[str, tuple[Any, ...]]]) -> Any:
        def call(*arguments: Any) -> int:
            plain = []
            for kind, value in zip(kinds, arguments, strict=True):
                target = getattr(kind, "_type_", None)
                if isinstance(target, type) and issubclass(target, ctypes.Structure) and value:
                    content = target.from_buffer_copy(value.contents)  # the caller's ends with the call
                    plain.append({field: getattr(content, field) for field, _ in content._fields_})
                elif (
                    isinstance(target, type)
                    and value
                    and target is not ctypes.c_char_p
                    and not name.startswith("cuGraphAdd")
                ):
                    value[0] = 13000 if name == "cuDriverGetVersion" else 77
                    plain.append("out")
                else:
                    plain.append(value)
                    if name.startswith("cuGraphAdd") and len(plain) == 1:
                        value[0] = 77
            seen.append((name, tuple(plain)))
            return self.codes.get(name, 0) if name != "cuFuncGetParamInfo" or len(self._parameters(seen)) < 3 else 1

        return call

    @staticmethod
    def _parameters(seen: list[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        return [each for each in seen if each[0] == "cuFuncGetParamInfo"]


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, lacks: frozenset[str] = frozenset()) -> None:
        self.seen: list[tuple[str, tuple[Any, ...]]] = []
        self.library = Library(self.seen, lacks)
        self.statuses: dict[str, int] = {}
        error = type("CUDAError", (RuntimeError,), {"status": 0})
        modules = {}
        for name, functions in CUPY.items():
            module: Any = types.ModuleType(f"cupy_backends.cuda.api.{name}")
            module.CUDADriverError = module.CUDARuntimeError = error
            for function, (count, answer) in functions.items():
                setattr(module, function, self._made(function, count, answer, error))
            modules[name] = module
        api: Any = types.ModuleType("cupy_backends.cuda.api")
        api.driver, api.runtime = modules["driver"], modules["runtime"]
        for name, module in (("cupy_backends", types.ModuleType("cupy_backends")),
                             ("cupy_backends.cuda", types.ModuleType("cupy_backends.cuda")), ("cupy_backends.cuda.api", api)):  # fmt: skip
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr("farlane.backend.device.gpu.driver.cuda.ctypes.CDLL", lambda name: self.library)
        self.driver = CudaDriver()

    def _made(self, name: str, count: int, answer: Any, error: Any) -> Any:
        def call(*arguments: Any) -> Any:
            assert len(arguments) == count, name
            self.seen.append((name, arguments))
            if self.statuses.get(name):
                raised = error("as the test asked")
                raised.status = self.statuses[name]
                raise raised
            return answer

        call.__name__ = name
        return call


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    return Rig(monkeypatch)  # type: ignore[return-value]


@pytest.mark.parametrize(("method", "arguments", "ends_in"), CALLS, ids=[f"{c[0]}-{c[2]}" for c in CALLS])
def test_every_call_arrives(rig: Rig, method: str, arguments: tuple[Any, ...], ends_in: str) -> None:
    getattr(rig.driver, method)(*arguments)
    assert ends_in in [name for name, _ in rig.seen]


def test_every_method_is_called_above() -> None:
    methods = {name for name, _ in inspect.getmembers(Driver, inspect.isfunction) if not name.startswith("_")}
    assert {method for method, _, _ in CALLS} == methods


@pytest.mark.parametrize(("method", "arguments", "ends_in"), CALLS[:: max(1, len(CALLS) // 20)])
def test_every_error_is_the_interfaces(rig: Rig, method: str, arguments: tuple[Any, ...], ends_in: str) -> None:
    rig.library.codes[ends_in] = rig.statuses[ends_in] = 700
    with pytest.raises(DriverError) as caught:
        getattr(rig.driver, method)(*arguments)
    assert caught.value.code == 700


def test_what_is_in_the_structures(rig: Rig) -> None:
    driver = rig.driver
    driver.add_kernel(1, None, KERNEL)
    (*_, after, count, kernel) = rig.seen[-1][1]
    assert (bool(after), count) == (False, 0)
    assert [kernel[name] for name in ("func", "gridDimZ", "blockDimX", "sharedMemBytes", "kernelParams", "extra")] == [
        1 << 40, 3, 4, 7, 8, None,
    ]  # fmt: skip
    driver.change_copy(1, 2, COPY, 5)
    copy = rig.seen[-1][1][2]
    assert (copy["srcDevice"], copy["srcPitch"], copy["dstDevice"], copy["dstPitch"]) == (1 << 44, 32, 1 << 45, 64)
    assert (copy["srcMemoryType"], copy["dstMemoryType"], copy["WidthInBytes"], copy["Height"], copy["Depth"]) == (
        2,
        2,
        16,
        2,
        1,
    )
    driver.change_set(1, 2, SET, 5)
    assert list(rig.seen[-1][1][2].values()) == [1 << 45, 512, 0xABCD, 2, 10, 3]
    driver.create(2 << 20, 3)
    wanted = rig.seen[-1][1][2]
    assert (wanted["type"], wanted["requestedHandleTypes"], wanted["location"].type, wanted["location"].id) == (
        1,
        0,
        1,
        3,
    )
    assert driver.variable(50, "counter") == (77, 77)
    assert driver.parameters(51) == [Parameter(77, 77)] * 2


def test_a_cooperative_launch(rig: Rig) -> None:
    """With parameters either way: the call of that name takes no buffer."""
    rig.driver.launch_with_attributes(1 << 40, COOPERATIVE, 1, 0, 8)
    config, *rest = rig.seen[-1][1]
    assert list(config.values())[:8] == [1, 2, 3, 4, 5, 6, 7, 1]
    assert rest == [1 << 40, None, 8]
    assert config["numAttrs"] == 1
    made = launch_configuration(COOPERATIVE, 1)
    assert (made.attrs[0].id, made.attrs[0].value.cooperative) == (prototypes.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1)


def test_a_launch_with_clusters() -> None:
    made = launch_configuration(replace(COOPERATIVE, cluster=(4, 2, 1)), 1)
    assert [made.attrs[at].id for at in range(made.numAttrs)] == [
        prototypes.CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
        prototypes.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
    ]
    assert list(made.attrs[1].value.clusterDim) == [4, 2, 1]


def test_copies_that_are_one_row_are_told_so(rig: Rig) -> None:
    """Only such nodes of a graph can be changed; and a single row's pitch says nothing, but is not 0."""
    fields = ("srcPitch", "dstPitch", "WidthInBytes", "Height", "srcHeight", "dstHeight")
    for work, wanted in (
        (CopyWork(1, 16, 2, 16, 16, 4), (64, 64, 64, 1, 1, 1)),
        (CopyWork(1, 0, 2, 512, 16, 1), (16, 16, 16, 1, 1, 1)),
        (COPY, (32, 64, 16, 2, 2, 2)),
    ):
        rig.driver.change_copy(1, 2, work, 5)
        copy = rig.seen[-1][1][2]
        assert tuple(copy[name] for name in fields) == wanted


def test_what_is_in_the_structures_of_textures(rig: Rig) -> None:
    driver = rig.driver
    driver.create_array(ARRAY)
    asked = rig.seen[-1][1][1]
    assert list(asked.values()) == [16, 8, 0, 0x10, 4, 3]
    driver.copy_box(BOX, 61)
    copy = rig.seen[-1][1][0]
    assert [copy[name] for name in ("dstMemoryType", "dstArray", "dstXInBytes", "dstY", "dstZ")] == [
        3,
        1 << 40,
        8,
        2,
        3,
    ]
    assert [copy[name] for name in ("srcMemoryType", "srcHost", "srcPitch", "srcHeight")] == [1, 1 << 41, 96, 5]
    assert [copy[name] for name in ("WidthInBytes", "Height", "Depth", "srcDevice", "dstHost")] == [64, 5, 1, 0, None]
    driver.create_texture(TexelSource(address=1 << 45, channels=2, width=9, height=4, pitch=512), SPEC)
    resource, sampling, view = rig.seen[-1][1][1:]
    rows = resource["res"].pitch2D
    assert (resource["resType"], rows.devPtr, rows.format, rows.numChannels) == (3, 1 << 45, 0x20, 2)
    assert (rows.width, rows.height, rows.pitchInBytes, bool(view)) == (9, 4, 512, False)
    assert (list(sampling["addressMode"]), sampling["filterMode"], sampling["flags"]) == ([0, 1, 3], 1, 2)
    assert (sampling["maxAnisotropy"], list(sampling["borderColor"])) == (8, [0.5, 0.0, 1.0, 0.25])
    driver.create_texture(TexelSource(address=1 << 45, bytes=400), SPEC)
    resource = rig.seen[-1][1][1]
    assert (resource["resType"], resource["res"].linear.sizeInBytes) == (2, 400)
    driver.create_surface(1 << 40)
    resource = rig.seen[-1][1][1]
    assert (resource["resType"], resource["res"].array.hArray, resource["flags"]) == (0, 1 << 40, 0)


def test_a_driver_older_than_cupys_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own calls would work, and every call of the runtime fail: it is said at the start."""
    monkeypatch.setitem(CUPY["runtime"], "runtimeGetVersion", (0, 14000))
    with pytest.raises(Missing, match=r"built for CUDA 14, and the NVIDIA driver serves CUDA 13; .*farlane\[gpu12\]"):
        Rig(monkeypatch)


def test_a_query_that_is_not_ready(rig: Rig) -> None:
    rig.library.codes["cuStreamQuery"] = 600
    assert not rig.driver.stream_done(61)
    assert rig.driver.event_done(62)


def test_an_old_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may be missing is done without; what may not, is said."""
    driver = Rig(monkeypatch, prototypes.OPTIONAL).driver
    assert driver.parameters(51) is None
    with pytest.raises(DriverError) as caught:
        driver.granularity(0)
    assert caught.value.code == 801
    with pytest.raises(Missing, match="too old: it has no cuGraphAddKernelNode_v2"):
        Rig(monkeypatch, frozenset({"cuGraphAddKernelNode_v2"}))
