"""Arrays, textures and surfaces on a GPU: allocations that become arrays of the driver's, the copies to and from them, the objects' ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from driver_options import ask
from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.gpu.driver import prototypes as p
from farlane.backend.device.gpu.driver.interface import ArrayFormat, ArraySpec, TexelSource, TextureSpec
from farlane.backend.device.gpu.memory.staging import PIECE
from farlane.backend.device.objects import ChannelKind, ObjectDescription, Resource, Sampling, Texels

PITCH = 512
PLAIN = Sampling(False, (1, 1, 1), False, False, False, (0.0, 0.0, 0.0, 0.0), 0)


def texels(
    address: int, extent: tuple[int, int, int] = (20, 6, 0), flags: int = 2, pitch: int = PITCH, channel: int = 4
) -> Texels:
    width, height, depth = extent[0], max(extent[1], 1), max(extent[2], 1)
    return Texels(
        Resource.ARRAY, address, (width, height, depth), pitch, pitch * height, channel, 1, ChannelKind.FLOAT, extent, flags
    )  # fmt: skip


def surface(bench: Any, of: Texels) -> int:
    return int(bench.context.create_object(ObjectDescription(of, None)))


def texture(bench: Any, of: Texels, sampling: Sampling = PLAIN) -> int:
    return int(bench.context.create_object(ObjectDescription(of, sampling)))


class Model:
    """A range of a context's memory, and its bytes as they have to be. Rows of an array lie PITCH apart; what is between them is nobody's."""

    def __init__(self, bench: Any, address: int, size: int) -> None:
        self._bench = bench
        self.address = address
        self.bytes = bytearray(size)

    def places(self, rows: Rows) -> list[slice]:
        first = rows.address - self.address
        return [slice(at, at + rows.width) for at in range(first, first + rows.height * rows.pitch, rows.pitch)]

    def get(self, rows: Rows) -> bytes:
        return b"".join(self.bytes[place] for place in self.places(rows))

    def put(self, rows: Rows, data: bytes) -> None:
        for number, place in enumerate(self.places(rows)):
            self.bytes[place] = data[number * rows.width :][: rows.width]


class ArrayModel(Model):
    def __init__(self, bench: Any, at: int, extent: tuple[int, int, int], flags: int) -> None:
        self.texels = texels(bench.base + at, extent, flags)
        super().__init__(bench, self.texels.address, self.texels.span)
        bench.context.allocate(self.texels.address, self.texels.span)
        for row in range(self.texels.span // PITCH):
            bench.write(self.address + row * PITCH, bytes(self.texels.row))

    def some_rows(self, rng: random.Random) -> Rows:
        """A box; or, where rows are not padded, a plain range over several of them."""
        count = self.texels.span // PITCH
        first, x = rng.randrange(count), 4 * rng.randrange(self.texels.size[0])
        if self.texels.row == PITCH and rng.random() < 0.5:
            left = (count - first) * PITCH - x
            width = 4 * rng.randint(1, left // 4)
            return Rows(self.address + first * PITCH + x, width, width, 1)
        width = 4 * rng.randint(1, (self.texels.row - x) // 4)
        return Rows(self.address + first * PITCH + x, PITCH, width, rng.randint(1, count - first))


SHAPES = [((20, 6, 0), 2), ((128, 5, 0), 2), ((20, 3, 4), 2), ((33, 0, 0), 2), ((128, 0, 5), 3)]


@pytest.mark.parametrize("seed", range(4))
def test_copies_are_what_they_would_be_in_memory(new_bench: Callable[..., Any], seed: int) -> None:
    """Random boxes to, from and between arrays and memory, before and after the arrays have objects; in mapped memory and in a slab."""
    bench = new_bench(maps=seed % 2 == 0)
    rng, context = random.Random(seed), bench.context
    arrays = [ArrayModel(bench, 1 << 20 + index, *shape) for index, shape in enumerate(SHAPES)]
    memory = Model(bench, bench.base, 1 << 15)
    context.allocate(memory.address, len(memory.bytes))
    bench.write(memory.address, bytes(memory.bytes))
    made = []
    for step in range(80):
        if step == 20:
            made = [(surface(bench, each.texels), True) for each in arrays]
            made += [(texture(bench, each.texels), False) for each in arrays[::2]]
        array = rng.choice(arrays)
        rows = array.some_rows(rng)
        what = rng.choice(("write", "read", "in", "out", "between"))
        if what == "write":
            data = rng.randbytes(rows.width * rows.height)
            context.write(rows, memoryview(data), bench.stream)
            array.put(rows, data)
        elif what == "read":
            assert b"".join(map(bytes, context.read(rows, bench.stream))) == array.get(rows)
        elif what == "between":
            other = arrays[1]
            width = min(rows.width, 64)
            source = Rows(rows.address, PITCH, width, min(rows.height, 3))
            if (source.address - array.address) % PITCH + width > array.texels.row:
                continue
            target = Rows(other.address + 100, PITCH, width, source.height)
            data = array.get(source)
            context.copy(target, source, bench.stream)
            other.put(target, data)
        else:
            pitch = rows.width + 4 * rng.randrange(8)
            there = Rows(memory.address + 4 * rng.randrange(64), pitch, rows.width, rows.height)
            if there.address + pitch * rows.height > memory.address + len(memory.bytes):
                continue
            target, source = (rows, there) if what == "in" else (there, rows)
            to, out = (array, memory) if what == "in" else (memory, array)
            context.copy(target, source, bench.stream)
            to.put(target, out.get(source))
    for array in arrays:
        for row in range(array.texels.span // PITCH):
            line = Rows(array.address + row * PITCH, PITCH, array.texels.row, 1)
            assert bench.read(line.address, line.width) == array.get(line)
    assert bench.read(memory.address, len(memory.bytes)) == bytes(memory.bytes)
    for value, is_surface in made:
        context.destroy_object(value, surface=is_surface)
    for array in arrays:
        context.free(array.address)
    assert not {"arrays", "textures", "surfaces"} & set(bench.left())


def test_an_array_takes_the_place_of_its_memory(bench: Any) -> None:
    """Once, at the first object; what was on its way to it in other streams has arrived."""
    context, counts = bench.context, bench.driver.counts
    other = context.create_stream(1, 0)
    of = texels(bench.base + 512)
    context.allocate(of.address, of.span)
    bench.write(of.address, bytes(range(80)), other)
    texture(bench, of)
    assert counts["create_array"] == 1
    assert bench.read(of.address, 80) == bytes(range(80))
    surface(bench, of)
    assert counts["create_array"] == 1
    context.rest()
    assert "memory" not in bench.left()  # the array's, which the driver has elsewhere
    context.free(of.address)
    context.allocate(of.address, of.span)
    bench.write(of.address, b"memory again")
    assert bench.read(of.address, 12) == b"memory again"
    assert "arrays" not in bench.left()


def test_large_copies_go_in_pieces(bench: Any) -> None:
    """Each through pinned memory, which is used again."""
    of = texels(bench.base, (256, 4096, 0), pitch=1024)
    bench.context.allocate(of.address, of.span)
    surface(bench, of)
    data = random.Random(1).randbytes(of.span)
    bench.context.write(Rows(of.address, of.span, of.span, 1), memoryview(data), bench.stream)
    assert bench.read(of.address, of.span) == data
    sizes = [arguments[0].width * arguments[0].height for name, arguments in bench.driver.calls if name == "copy_box"]
    assert max(sizes[1:]) == PIECE
    assert len(sizes) == 1 + 8


def test_objects_of_memory(bench: Any) -> None:
    """Texels in a row, and rows of them: described to the driver as CUDA has it."""
    bench.context.allocate(bench.base, 8192)
    row = Texels(Resource.LINEAR, bench.base, (100, 1, 1), 0, 0, 2, 2, ChannelKind.SIGNED, (0, 0, 0), 0)
    linear = texture(bench, row)
    rows = row._replace(resource=Resource.ROWS, size=(16, 4, 1), pitch=512, channel_bytes=1, kind=ChannelKind.UNSIGNED)
    sampling = Sampling(True, (0, 2, 3), True, True, False, (0.0, 0.0, 0.0, 0.0), 3)
    pitched = texture(bench, rows, sampling)
    asked = [arguments for name, arguments in bench.driver.calls if name == "create_texture"]
    first, second = ArrayFormat.SIGNED_INT16, ArrayFormat.UNSIGNED_INT8
    assert asked == [
        (TexelSource(address=bench.base, format=first, channels=2, bytes=400),
         TextureSpec((1, 1, 1), False, p.CU_TRSF_READ_AS_INTEGER, 0, (0.0, 0.0, 0.0, 0.0))),
        (TexelSource(address=bench.base, format=second, channels=2, width=16, height=4, pitch=512),
         TextureSpec((0, 2, 3), True, p.CU_TRSF_NORMALIZED_COORDINATES, 3, (0.0, 0.0, 0.0, 0.0))),
    ]  # fmt: skip
    bench.context.destroy_object(linear, surface=False)
    with pytest.raises(CudaError) as again:
        bench.context.destroy_object(linear, surface=False)
    with pytest.raises(CudaError) as other_kind:
        bench.context.destroy_object(pitched, surface=True)
    assert (again.value.code, other_kind.value.code) == (1, 1)


def refusal(bench: Any, of: Texels, sampling: Sampling | None = PLAIN) -> int:
    with pytest.raises(CudaError) as caught:
        bench.context.create_object(ObjectDescription(of, sampling))
    return caught.value.code


def test_what_is_refused(bench: Any) -> None:
    """A guest may say anything: what it describes must be its own, and what it was."""
    context, of = bench.context, texels(bench.base)
    assert refusal(bench, of) == 1  # no memory there
    context.allocate(of.address, of.span)
    assert refusal(bench, of._replace(address=of.address + 512)) == 1
    assert refusal(bench, texels(bench.base, (20, 7, 0))) == 1  # larger than the allocation
    memory = Texels(Resource.LINEAR, bench.base, (20, 1, 1), 0, 0, 4, 1, ChannelKind.FLOAT, (0, 0, 0), 0)
    assert refusal(bench, memory._replace(size=(2000, 1, 1))) == 1
    assert refusal(bench, memory, None) == 1  # a surface of memory
    assert refusal(bench, of._replace(flags=0), None) == 1  # ... of an array without surfaces
    made = texture(bench, of._replace(flags=0))
    assert refusal(bench, of) == 1  # the array is another one now
    assert refusal(bench, memory) == 1  # no memory any more
    with pytest.raises(CudaError):
        context.set(Rows(of.address, 4, 4, 1), 0, 1, bench.stream)
    assert made
    assert bench.left()["textures"] == 1


def test_no_room_for_an_array(bench: Any) -> None:
    """It stays memory, and everything goes on."""
    of = texels(bench.base)
    bench.context.allocate(of.address, of.span)
    bench.write(of.address, b"kept")
    ask("fail cuArray3DCreate 2")
    assert refusal(bench, of) == 2
    ask("fail cuMemcpy3DAsync 999")
    assert refusal(bench, of) == 999
    assert "arrays" not in bench.left()
    assert bench.read(of.address, 4) == b"kept"


def test_a_reset_ends_them(bench: Any) -> None:
    of = texels(bench.base)
    for _ in range(2):
        bench.context.allocate(of.address, of.span)
        surface(bench, of)
        texture(bench, of)
        bench.context.reset()
        assert not {"arrays", "textures", "surfaces"} & set(bench.left())
    with pytest.raises(CudaError):
        bench.context.destroy_object(1, surface=True)


def test_array_specs(bench: Any) -> None:
    """The driver gets the extent as the program asked for it, and the format of the channels."""
    of = texels(bench.base, (8, 0, 4), 1)._replace(channel_bytes=2, kind=ChannelKind.SIGNED)
    bench.context.allocate(of.address, of.span)
    texture(bench, of)
    (asked,) = [arguments[0] for name, arguments in bench.driver.calls if name == "create_array"]
    assert asked == ArraySpec(8, 0, 4, ArrayFormat.SIGNED_INT16, 1, p.CUDA_ARRAY3D_LAYERED)


def test_an_array_ends_behind_what_uses_it(bench: Any) -> None:
    of = texels(bench.base)
    bench.context.allocate(of.address, of.span)
    surface(bench, of)
    bench.write(of.address, b"on its way  ")
    assert int(ask("held")) > 0
    bench.context.free(of.address)
    assert not {"arrays", "early"} & set(bench.left())
