"""tex, suld and sust against what the descriptor says: formats, places outside, what is no descriptor. Filters and address modes at large: tests/native/images/textures.cu."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.lowering.families.images.texels import BORDER, CLAMP, MAGIC, MIRROR, WRAP
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

PITCH = 64
KINDS = {"i": 0, "u": 1, "f": 2}


@pytest.fixture
def device() -> TinyDevice:
    return TinyDevice()


def texture(
    device: TinyDevice,
    texels: np.ndarray,
    *,
    linear: int = 0,
    mode: int = CLAMP,
    normalized: int = 0,
    scaled: int = 0,
    magic: int = MAGIC,
    border: tuple[float, ...] = (),
    srgb: int = 0,
) -> int:
    """A descriptor of rows (height, width, channels), or of layers or faces of them, uploaded in rows of 64 bytes."""
    *layers, height, width, channels = texels.shape
    depth = layers[0] if layers else 1
    rows = np.zeros((depth * height, PITCH), dtype=np.uint8)
    raw = np.ascontiguousarray(texels).view(np.uint8).reshape(depth * height, -1)
    rows[:, : raw.shape[1]] = raw
    fields = struct.pack(
        "<QIIIIQQIIIIIIIIIIxxxx",
        device.upload(rows), width, height, depth, 0, PITCH, PITCH * height, texels.itemsize, channels, KINDS[texels.dtype.kind],
        linear, mode, mode, mode, normalized, scaled, magic,
    )  # fmt: skip
    whole = fields.ljust(104, b"\0") + struct.pack(f"<I{len(border)}f", srgb, *border)
    return device.upload(np.frombuffer(whole.ljust(128, b"\0"), dtype=np.uint8))


FLAT = "tex.2d.v4.KIND.f32 {RESULTS}, [%l0, {%f0, %f1}]"


def sampled(
    device: TinyDevice, handle: int, places: list[tuple[float, ...]], kind: str = "f32", instruction: str = FLAT
) -> tuple[int, np.ndarray]:
    """What one instruction yields for each thread's place (up to four numbers: %f0 to %f3, the last one also as %r5)."""
    text = f"""{HEADER}
.visible .entry k(.param .u64 object, .param .u64 at, .param .u64 to) {{
  .reg .b32 %r<8>; .reg .b64 %l<8>; .reg .f32 %f<8>;
  ld.param.u64 %l0, [object]; ld.param.u64 %l1, [at]; ld.param.u64 %l2, [to];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %l3, %r0, 16;
  add.u64 %l1, %l1, %l3;
  ld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%l1];
  cvt.rzi.s32.f32 %r5, %f3;
  {instruction.replace("RESULTS", "%r1, %r2, %r3, %r4").replace("KIND", kind)};
  mul.wide.u32 %l4, %r0, 16;
  add.u64 %l2, %l2, %l4;
  st.global.v4.u32 [%l2], {{%r1, %r2, %r3, %r4}};
  ret;
}}
"""
    if kind == "f32":
        text = text.replace("%r1, %r2, %r3, %r4", "%f4, %f5, %f6, %f7").replace("st.global.v4.u32", "st.global.v4.f32")
    out = device.allocate(16 * len(places))
    at = device.upload(np.array([(*place, *[0.0] * (4 - len(place))) for place in places], dtype=np.float32))
    status = device.launch(device.load(text), "k", 1, len(places), [handle, at, out])
    return status, device.download(out, np.float32 if kind == "f32" else np.int32, 4 * len(places)).reshape(-1, 4)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4"])
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_integers_are_read_as_they_are(device: TinyDevice, dtype: str, channels: int) -> None:
    values = np.arange(2 * 3 * channels).reshape(2, 3, channels)
    texels = (values - 3).astype(f"<{dtype}")
    places = [(x + 0.5, y + 0.5) for y in range(2) for x in range(3)]
    status, seen = sampled(device, texture(device, texels), places, "s32" if dtype[0] == "i" else "u32")
    expected = np.zeros((6, 4), dtype=np.int32)
    expected[:, 3] = 1  # the channel that is missing
    expected[:, :channels] = texels.reshape(6, channels).astype(np.int64).astype(np.int32)
    assert status == 0
    np.testing.assert_array_equal(seen, expected)


def test_floats_of_both_sizes_and_normalized_integers(device: TinyDevice) -> None:
    for texels, scaled, expected in [
        (np.array([[[1.5], [-2.25]]], dtype="<f4"), 0, [1.5, -2.25]),
        (np.array([[[1.5], [-2.25]]], dtype="<f2"), 0, [1.5, -2.25]),
        (np.array([[[255], [51]]], dtype="<u1"), 1, [1.0, 0.2]),
        (np.array([[[-128], [127]]], dtype="<i1"), 1, [-1.0, 1.0]),
        (np.array([[[65535], [0]]], dtype="<u2"), 1, [1.0, 0.0]),
    ]:
        status, seen = sampled(device, texture(device, texels, scaled=scaled), [(0.5, 0.5), (1.5, 0.5)])
        assert status == 0
        np.testing.assert_allclose(seen[:, 0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("mode", "expected"), [(WRAP, [2, 0, 1]), (CLAMP, [0, 0, 2]), (MIRROR, [0, 0, 1]), (BORDER, [-1, 0, -1])]
)
def test_address_modes(device: TinyDevice, mode: int, expected: list[int]) -> None:
    texels = np.array([[[10.0], [11.0], [12.0]]], dtype="<f4")
    places = [((x + 0.5) / 3, 0.5) for x in (-1, 0, 4)]
    status, seen = sampled(device, texture(device, texels, mode=mode, normalized=1), places)
    assert status == 0
    assert seen[:, 0].tolist() == [0.0 if at < 0 else 10.0 + at for at in expected]


def test_linear_filter_and_places_that_are_no_numbers(device: TinyDevice) -> None:
    texels = np.array([[[0.0], [8.0]], [[16.0], [24.0]]], dtype="<f4")
    places = [(1.0, 1.0), (0.5, 0.5), (0.75, 0.5), (float("nan"), 0.5), (float("inf"), -float("inf"))]
    status, seen = sampled(device, texture(device, texels, linear=1), places)
    assert status == 0
    assert seen[:3, 0].tolist() == [12.0, 0.0, 2.0]


def test_a_border_has_a_colour_and_takes_part_in_filtering(device: TinyDevice) -> None:
    texels = np.array([[[8.0]]], dtype="<f4")
    border = (4.0, 1.0, 2.0, 3.0)
    for linear, expected in ((0, [4.0, 1.0, 2.0, 3.0]), (1, [5.0, 0.75, 1.5, 2.5])):
        handle = texture(device, texels, linear=linear, mode=BORDER, border=border)
        status, seen = sampled(device, handle, [(1.25, 0.5)])
        assert status == 0
        assert seen[0].tolist() == expected


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_the_colour_of_an_integer_border_is_its_bits(device: TinyDevice, kind: str) -> None:
    colour = np.array([7, 0xFFFFFFFE, 1 << 20, 3], dtype=np.uint32)
    handle = texture(
        device, np.array([[[8]]], dtype="<u1"), mode=BORDER, border=tuple(colour.view(np.float32).tolist())
    )
    status, seen = sampled(device, handle, [(0.5, 0.5), (1.5, 0.5)], kind)
    assert status == 0
    assert seen.astype(np.uint32).tolist() == [[8, 0, 0, 1], colour.tolist()]


def _linear(stored: np.ndarray) -> np.ndarray:
    share = stored / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_srgb_colours_are_made_linear_and_alpha_is_not(device: TinyDevice, channels: int) -> None:
    texels = (
        np.arange(256, dtype="u1").repeat(channels).reshape(16, 16, channels)[:4]
    )  # rows of the fixture have 64 bytes
    handle = texture(device, texels, scaled=1, srgb=1)
    places = [(x + 0.5, y + 0.5) for y in range(4) for x in range(16)]
    status, seen = sampled(device, handle, places)
    assert status == 0
    for channel in range(min(channels, 3)):
        np.testing.assert_allclose(seen[:, channel], _linear(texels[..., 0].ravel()), rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(seen[:, 3], texels[..., 0].ravel() / 255 if channels == 4 else 1.0, rtol=1e-6)


def test_srgb_is_for_bytes_read_as_shares_alone_and_filters_see_linear_values(device: TinyDevice) -> None:
    bright = np.array([[[200], [100]]], dtype="u1")
    for texels, scaled, expected in [
        (bright, 0, bright.view("u1").astype("f4").ravel()),
        (np.array([[[-100], [50]]], dtype="i1"), 1, np.array([-100, 50]) / 127),
        (np.array([[[9000], [50]]], dtype="<u2"), 1, np.array([9000, 50]) / 65535),
    ]:
        handle = texture(device, texels, scaled=scaled, srgb=1)
        status, seen = sampled(device, handle, [(0.5, 0.5), (1.5, 0.5)], "f32" if scaled else "u32")
        assert status == 0
        np.testing.assert_allclose(seen[:, 0], expected, rtol=1e-6)
    between = texture(device, bright, scaled=1, srgb=1, linear=1)
    status, seen = sampled(device, between, [(1.0, 0.5)])
    assert status == 0
    np.testing.assert_allclose(seen[0, 0], _linear(bright.astype("f8").ravel()).mean(), rtol=2e-6)
    outside = texture(device, bright, scaled=1, srgb=1, mode=BORDER, border=(0.5, 0.25, 0.125, 1.0))
    status, seen = sampled(device, outside, [(-1.0, 0.5)])
    assert (status, seen[0].tolist()) == (0, [0.5, 0.25, 0.125, 1.0])  # linear already


# Directions and the face they meet with the place on it (CUDA programming guide, "Cubemap Textures"), for u and v within [-1, 1].
FACES = {
    0: lambda u, v: (1.0, -v, -u),
    1: lambda u, v: (-1.0, -v, u),
    2: lambda u, v: (u, 1.0, v),
    3: lambda u, v: (u, -1.0, -v),
    4: lambda u, v: (u, -v, 1.0),
    5: lambda u, v: (-u, -v, -1.0),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("geometry", ["cube", "acube", "level.cube"])
@pytest.mark.parametrize("linear", [0, 1])
def test_cube_maps(device: TinyDevice, geometry: str, linear: int) -> None:
    cubes, width = (2, 4) if geometry == "acube" else (1, 4)
    texels = np.arange(cubes * 6 * width * width, dtype="<f4").reshape(cubes * 6, width, width, 1)
    handle = texture(device, texels, linear=linear, mode=WRAP, normalized=1)
    centres = [(at + 0.5) / width * 2 - 1 for at in range(width)]
    places = [
        (*(3.0 * part for part in FACES[face](u, v)), float(cube))  # a direction's length means nothing
        for cube in range(cubes) for face in range(6) for v in centres for u in centres
    ]  # fmt: skip
    where = "{%r5, %f0, %f1, %f2}" if geometry == "acube" else "{%f0, %f1, %f2, %f2}"
    level = ", %f3" if "level" in geometry else ""
    status, seen = sampled(
        device, handle, places, instruction=f"tex.{geometry}.v4.KIND.f32 {{RESULTS}}, [%l0, {where}]{level}"
    )
    assert status == 0
    np.testing.assert_array_equal(seen[:, 0], texels.ravel())


def test_the_filter_stays_within_a_face_and_a_cube_that_is_not_there_is_the_last_one(device: TinyDevice) -> None:
    texels = np.repeat(np.arange(12, dtype="<f4"), 4).reshape(12, 2, 2, 1)
    handle = texture(device, texels, linear=1, normalized=1)
    places = [(1.0, 0.99, 0.99, 0.0), (0.99, -0.5, -1.0, 7.0)]
    instruction = "tex.acube.v4.KIND.f32 {RESULTS}, [%l0, {%r5, %f0, %f1, %f2}]"
    status, seen = sampled(device, handle, places, instruction=instruction)
    assert (status, seen[:, 0].tolist()) == (0, [0.0, 11.0])


@pytest.mark.parametrize(("channel", "number"), [("r", 0), ("g", 1), ("a", 3)])
def test_gathers_of_four_texels(device: TinyDevice, channel: str, number: int) -> None:
    texels = np.arange(3 * 4 * 4, dtype="<f4").reshape(3, 4, 4)
    # The lower left one first, then against the clock; rows go down.
    corners = [(1, 2), (2, 2), (2, 1), (1, 1)]
    for linear in (0, 1):
        status, seen = sampled(
            device, texture(device, texels, linear=linear), [(2.0, 2.0), (2.4, 1.6)],
            instruction=f"tld4.{channel}.2d.v4.KIND.f32 {{RESULTS}}, [%l0, {{%f0, %f1}}]",
        )  # fmt: skip
        assert status == 0
        assert seen.tolist() == [[float(texels[y, x, number]) for x, y in corners]] * 2


def mipmapped(
    device: TinyDevice,
    levels: list[np.ndarray],
    *,
    linear: int = 0,
    bias: float = 0.0,
    clamps: tuple[float, float] = (0.0, 99.0),
) -> int:
    """The object of a mipmapped array: normalized coordinates, texels not filtered, levels as `linear` says."""
    descriptors = []
    for texels in levels:
        handle = texture(device, texels, normalized=1)
        one = bytearray(device.download(handle, "u1", 128).tobytes())
        struct.pack_into("<IIfff", one, 80, 1, len(levels) - 1, *clamps, bias)
        struct.pack_into("<I", one, 124, linear)
        descriptors.append(bytes(one))
    return device.upload(np.frombuffer(b"".join(descriptors), dtype=np.uint8))


LEVEL = "tex.level.2d.v4.KIND.f32 {RESULTS}, [%l0, {%f0, %f1}], %f2"
PYRAMID = [np.full((4, 4, 1), 10, "<f4"), np.array([[[20], [21]], [[22], [23]]], "<f4"), np.full((1, 1, 1), 40, "<f4")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("linear", "bias", "clamps", "expected"),
    [
        (0, 0.0, (0.0, 99.0), {-1.0: 10, 0.4: 10, 0.6: 20, 1.4: 20, 2.5: 40, 9.0: 40, float("nan"): 10}),
        (1, 0.0, (0.0, 99.0), {-1.0: 10, 0.25: 12.5, 1.0: 20, 1.5: 30, 2.5: 40}),
        (1, 1.0, (0.0, 99.0), {-1.0: 10, 0.0: 20, 0.5: 30, 7.0: 40}),
        (1, 0.0, (0.5, 1.25), {0.0: 15, 1.0: 20, 2.0: 25}),
    ],
)
def test_levels_of_detail(
    device: TinyDevice, linear: int, bias: float, clamps: tuple[float, float], expected: dict[float, float]
) -> None:
    handle = mipmapped(device, PYRAMID, linear=linear, bias=bias, clamps=clamps)
    status, seen = sampled(device, handle, [(0.25, 0.25, level) for level in expected], instruction=LEVEL)
    assert (status, seen[:, 0].tolist()) == (0, list(expected.values()))


def test_each_level_has_its_own_size(device: TinyDevice) -> None:
    places = [(0.25, 0.25, 1.0), (0.75, 0.25, 1.0), (0.25, 0.75, 1.0), (0.75, 0.75, 1.0)]
    status, seen = sampled(device, mipmapped(device, PYRAMID), places, instruction=LEVEL)
    assert (status, seen[:, 0].tolist()) == (0, [20, 21, 22, 23])
    status, seen = sampled(device, mipmapped(device, PYRAMID), [(0.75, 0.75)])
    assert (status, seen[0, 0]) == (0, 10)  # no level is named


def test_the_level_of_a_gradient_is_that_of_the_longer_one(device: TinyDevice) -> None:
    instruction = "tex.grad.2d.v4.KIND.f32 {RESULTS}, [%l0, {%f0, %f1}], {%f2, %f3}, {%f3, %f3}"
    places = [
        (0.25, 0.25, x, y) for x, y in [(0.0, 0.0), (0.25, 0.0), (0.5, 0.125), (1.0, 0.0), (0.0, 2.0), (0.0, 0.4)]
    ]
    status, seen = sampled(device, mipmapped(device, PYRAMID), places, instruction=instruction)
    assert (status, seen[:, 0].tolist()) == (0, [10, 10, 20, 40, 40, 20])


def test_integers_of_levels_are_not_filtered(device: TinyDevice) -> None:
    handle = mipmapped(device, [level.astype("<u2") for level in PYRAMID])
    status, seen = sampled(device, handle, [(0.25, 0.25, level) for level in (0.0, 0.6, 2.0)], "u32", LEVEL)
    assert (status, seen[:, 0].tolist()) == (0, [10, 20, 40])


def test_gradients_do_not_change_what_is_read(device: TinyDevice) -> None:
    texels = np.arange(6, dtype="<i4").reshape(2, 3, 1)
    instruction = "tex.grad.2d.v4.KIND.f32 {RESULTS}, [%l0, {%f0, %f1}], {%f1, %f2}, {%f2, %f0}"
    status, seen = sampled(device, texture(device, texels), [(2.5, 1.5)], "s32", instruction)
    assert (status, seen[0, 0]) == (0, 5)


def test_what_is_no_descriptor_ends_the_launch(device: TinyDevice) -> None:
    texels = np.zeros((1, 1, 1), dtype="<f4")
    for handle in (texture(device, texels, magic=1), 0, device.base + (1 << 25)):
        status, _ = sampled(device, handle, [(0.5, 0.5)])
        assert status != 0
        assert device.fault.kind == jit.FaultKind.ILLEGAL_ADDRESS


@pytest.mark.parametrize(("bounds", "ends"), [("zero", False), ("clamp", False), ("trap", True)])
def test_surfaces(device: TinyDevice, bounds: str, ends: bool) -> None:
    texels = np.arange(2 * 4, dtype="<i4").reshape(2, 4, 1)
    handle = texture(device, texels)
    text = f"""{HEADER}
.visible .entry k(.param .u64 object, .param .u64 to) {{
  .reg .b32 %r<8>; .reg .b64 %l<8>;
  ld.param.u64 %l0, [object]; ld.param.u64 %l2, [to];
  mov.u32 %r0, %tid.x; mov.u32 %r5, 1;
  shl.b32 %r1, %r0, 2; sub.s32 %r1, %r1, 4;
  suld.b.2d.b32.{bounds} {{%r2}}, [%l0, {{%r1, %r5}}];
  mul.wide.u32 %l3, %r0, 4; add.u64 %l2, %l2, %l3;
  st.global.u32 [%l2], %r2;
  add.s32 %r2, %r2, 100; mov.u32 %r5, 0;
  sust.b.2d.b32.{bounds} [%l0, {{%r1, %r5}}], {{%r2}};
  ret;
}}
"""
    out = device.allocate(24)
    status = device.launch(device.load(text), "k", 1, 6, [handle, out])
    assert (status != 0) == ends
    if not ends:
        seen = device.download(out, np.int32, 6).tolist()
        edges = [0, 0] if bounds == "zero" else [4, 7]
        assert seen == [edges[0], 4, 5, 6, 7, edges[1]]
        row = device.download(int.from_bytes(device.download(handle, np.uint8, 8).tobytes(), "little"), np.int32, 4)
        assert row.tolist() == [104, 105, 106, 107]


def asked(device: TinyDevice, handle: int, queries: list[str]) -> list[int]:
    code = "".join(
        f"{query.replace('[', '%r1, [')}; st.global.u32 [%l1+{4 * number}], %r1;"
        for number, query in enumerate(queries)
    )
    text = f"""{HEADER}.visible .entry k(.param .u64 object, .param .u64 to) {{ .reg .b32 %r<4>; .reg .b64 %l<4>;
    ld.param.u64 %l0, [object]; ld.param.u64 %l1, [to]; {code} ret; }}"""
    out = device.allocate(4 * len(queries))
    assert device.launch(device.load(text), "k", 1, 1, [handle, out]) == 0
    return device.download(out, np.int32, len(queries)).tolist()


def test_what_a_texture_is_asked(device: TinyDevice) -> None:
    texels = np.zeros((3, 2, 5, 1), dtype="<f4")
    names = [
        "width",
        "height",
        "depth",
        "array_size",
        "num_mipmap_levels",
        "normalized_coords",
        "filter_mode",
        "addr_mode_0",
        "addr_mode_2",
    ]
    queries = [f"txq.{name}.b32 [%l0]" for name in names]
    assert asked(device, texture(device, texels, normalized=1), queries) == [5, 2, 3, 3, 1, 1, 0, 3, 3]
    modes = [
        asked(device, texture(device, texels, mode=mode, linear=1), queries)[6:8]
        for mode in (WRAP, CLAMP, MIRROR, BORDER)
    ]
    assert modes == [[1, 0], [1, 3], [1, 1], [1, 4]]
    assert asked(device, texture(device, texels), [f"suq.{name}.b32 [%l0]" for name in names[:4]]) == [5, 2, 3, 3]


def test_the_levels_of_a_mipmapped_texture_are_asked(device: TinyDevice) -> None:
    handle = mipmapped(device, [np.zeros((8 >> n, 16 >> n, 1), dtype="<f4") for n in range(3)])
    queries = ["txq.num_mipmap_levels.b32 [%l0]", "txq.width.b32 [%l0]"]
    queries += [f"txq.level.{name}.b32 [%l0], {level}" for level in range(4) for name in ("width", "height")]
    assert asked(device, handle, queries) == [3, 16, 16, 8, 8, 4, 4, 2, 4, 2]


@pytest.mark.parametrize(
    "query", ["txq.channel_order.b32", "txq.num_samples.b32", "suq.memory_layout.b32", "suq.addr_mode_0.b32"]
)
def test_what_cuda_has_no_answer_for_is_refused(device: TinyDevice, query: str) -> None:
    with pytest.raises(jit.UnsupportedError, match=query.replace(".", r"\.")):
        asked(device, texture(device, np.zeros((1, 1, 1), dtype="<f4")), [f"{query} [%l0]"])
