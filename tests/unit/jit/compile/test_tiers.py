"""Tier 1 code does what tier 2 code does, has room on its stack, and gives way to it."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.compile import cache, compiler_main, kernels, native, tiers
from farlane.backend.jit.compile.process import CompilerProcess
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER
from threadless import threadless
from waiting import eventually

TIER_1 = jit.Options(cache=False, tier=1)
TIER_2 = jit.Options(cache=False)

pytestmark = pytest.mark.skipif(native.frame_bytes(b"") is None, reason="tier 1 code is for x86-64")


def program(values: int) -> str:
    """Shared memory, barriers, divergent branches, a call that recurses, and so many values that live across barriers."""
    registers = range(10, 10 + values)
    make = "\n".join(f"mad.lo.u32 %r{k}, %r0, {3 * k + 1}, {k};" for k in registers)
    add = "\n".join(f"xor.b32 %r4, %r4, %r{k}; mul.lo.u32 %r4, %r4, 31;" for k in registers)
    return (
        HEADER
        + f"""
    .func (.param .b32 out) depth(.param .b32 n)
    {{
        .reg .pred %p; .reg .b32 %a, %b, %n; ld.param.u32 %n, [n];
        setp.lt.u32 %p, %n, 2; @%p bra BASE;
        sub.u32 %a, %n, 1;
        {{ .param .b32 p0; st.param.b32 [p0], %a; .param .b32 r0; call (r0), depth, (p0); ld.param.b32 %b, [r0]; }}
        mad.lo.u32 %b, %b, 3, %n; st.param.b32 [out], %b; ret;
        BASE: mov.u32 %b, 7; st.param.b32 [out], %b; ret;
    }}
    .visible .entry k(.param .u64 out)
    {{
        .reg .pred %p<4>; .reg .b32 %r<{values + 20}>; .reg .b64 %rd<8>; .shared .align 4 .b8 all[1024];
        mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r4, 0; and.b32 %r2, %r0, 7;
        {make}
        mov.u64 %rd1, all; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd1, %rd2; st.shared.u32 [%rd3], %r10;
        bar.sync 0;
        setp.lt.u32 %p0, %r2, 3; @%p0 bra FEW;
        {{ .param .b32 p0; st.param.b32 [p0], %r2; .param .b32 r0; call (r0), depth, (p0); ld.param.b32 %r5, [r0]; }}
        add.u32 %r4, %r4, %r5; bra JOINED;
        FEW: mul.lo.u32 %r4, %r0, 5;
        JOINED: xor.b32 %r6, %r0, 63; mul.wide.u32 %rd4, %r6, 4; add.s64 %rd4, %rd1, %rd4; ld.shared.u32 %r7, [%rd4];
        bar.sync 0; add.u32 %r4, %r4, %r7;
        {add}
        ld.param.u64 %rd5, [out]; mad.lo.u32 %r8, %r1, 64, %r0; mul.wide.u32 %rd6, %r8, 4; add.s64 %rd5, %rd5, %rd6;
        st.global.u32 [%rd5], %r4; ret;
    }}
    """
    )


@pytest.mark.parametrize("values", [4, 200])
def test_light_code_gives_the_same_results(device: TinyDevice, values: int) -> None:
    module = device.load(program(values))
    results = []
    for options in (TIER_2, TIER_1):
        out = device.allocate(4 * 64 * 5)
        assert device.launch(module, "k", 5, 64, [out], options=options) == 0
        results.append(device.download(out, "u4", 64 * 5))
    assert np.array_equal(*results)
    assert results[0].any()


def test_the_stack_has_room_for_every_frame() -> None:
    module = jit.parse_module(program(600))
    info, image, _ = jit.translate(module, "k", (64, 1, 1), TIER_1)
    frames = native.frame_bytes(image)
    assert frames is not None
    assert frames > 600 * 128  # a vector of 32 words for each value that lives across a barrier
    assert info.stack_bytes > frames


def test_a_kernel_that_is_used_is_compiled_in_full(device: TinyDevice) -> None:
    module = device.load(program(20))
    out = device.allocate(4 * 64 * 5)
    assert device.launch(module, "k", 5, 64, [out], options=TIER_1) == 0
    expected = device.download(out, "u4", 64 * 5)
    kernel = device.kernel
    use, address = kernel.use, kernel.address
    assert use is not None
    enough = int(tiers.TIER_2_OVER_1 * kernel.info.compile_seconds * 1e9) + tiers.LEAST_NS
    use.spent(kernel, enough // 2)
    assert not use.asked
    use.spent(kernel, enough)
    eventually(lambda: kernel.use is None, 120)
    assert kernel.address != address
    assert device.launch(module, "k", 5, 64, [out], options=TIER_1) == 0
    assert device.kernel is kernel
    assert np.array_equal(device.download(out, "u4", 64 * 5), expected)


def test_register_tiles_are_compiled_in_full_early(device: TinyDevice) -> None:
    """And with room for the latches of both versions, which tier 1 code of such kernels does not have."""
    steps = "\n".join(
        f"fma.rn.f32 %f{at % 16}, %f{at % 4 + 16}, %f{at // 4 % 4 + 20}, %f{at % 16};" for at in range(640)
    )
    reads = "\n".join(f"ld.global.f32 %f{16 + at}, [%rd2+{256 * at}];" for at in range(8))
    copies = "\n".join(f"cp.async.ca.shared.global [%r1], [%rd2+{256 * at}], 4;" for at in range(8))
    stores = "\n".join(f"st.global.f32 [%rd3+{256 * at}], %f{at};" for at in range(16))
    text = f"""{HEADER}
    .visible .entry k(.param .u64 p, .param .u64 q)
    {{
        .reg .b32 %r<4>; .reg .b64 %rd<8>; .reg .f32 %f<24>; .shared .align 4 .b8 all[256];
        ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [q]; mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2;
        mul.wide.u32 %rd4, %r0, 4; add.s64 %rd2, %rd0, %rd4; add.s64 %rd3, %rd1, %rd4;
        {reads} {copies} bar.sync 0; {steps} {stores} ret;
    }}
    """
    module = device.load(text)
    p, q = device.upload(np.linspace(-1, 1, 1024, dtype="f4")), device.allocate(4096)
    assert device.launch(module, "k", 1, 64, [p, q], options=TIER_1) == 0
    kernel, expected = device.kernel, device.download(q, "u4", 1024)
    assert kernel.info.tiled
    assert kernel.use is not None
    full, _, _ = jit.translate(module, "k", (64, 1, 1), TIER_2)
    assert kernel.info.sites >= full.sites
    kernel.use.spent(kernel, tiers.LEAST_NS - 1)
    assert not kernel.use.asked
    kernel.use.spent(kernel, 1)
    eventually(lambda: kernel.use is None, 120)
    assert device.launch(module, "k", 1, 64, [p, q], options=TIER_1) == 0
    assert np.array_equal(device.download(q, "u4", 1024), expected)


def test_a_kernel_stays_in_tier_1_until_a_thread_can_be_started(device: TinyDevice) -> None:
    module = device.load(program(21))
    out = device.allocate(4 * 64)
    assert device.launch(module, "k", 1, 64, [out], options=TIER_1) == 0
    kernel = device.kernel
    assert kernel.use is not None
    compiler = tiers.Compiler()
    with threadless("tier-2-compiler") as refused:
        compiler.ask(kernel, kernel.use)
    assert refused == ["tier-2-compiler"]
    assert kernel.use is not None
    compiler.ask(kernel, kernel.use)
    eventually(lambda: kernel.use is None, 120)


class Shared:
    """Entries of several processes, of which another one compiles what is not there."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.claimed: list[str] = []

    def find(self, name: str) -> bytes | None:
        self.asked.append(name)
        return self.entries.get(name)

    def keep(self, name: str, entry: bytes) -> None:
        self.entries[name] = entry

    def claim(self, name: str) -> bool:
        self.claimed.append(name)
        return False


def test_a_kernel_that_another_process_compiles_is_taken_from_there(
    device: TinyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = device.load(program(22))
    out = device.allocate(4 * 64)
    assert device.launch(module, "k", 1, 64, [out], options=TIER_1) == 0
    kernel, expected = device.kernel, device.download(out, "u4", 64)
    assert kernel.use is not None
    info, image, _ = jit.translate(jit.parse_module(program(22)), "k", (64, 1, 1), TIER_2)
    store = Shared()
    monkeypatch.setattr(cache, "_store", store)
    monkeypatch.setattr(CompilerProcess, "compile", lambda *_: pytest.fail("it compiles"))
    kernel.use.options = dataclasses.replace(kernel.use.options, cache=True)
    use = kernel.use
    use.spent(kernel, tiers.LEAST_NS)
    eventually(lambda: not use.asked, 60)
    assert store.asked, "it may be there already"
    assert not store.claimed, "it is not worth it"
    use.spent(kernel, 10**12)

    def claimed() -> bool:
        use.spent(kernel, 1)
        return len(store.claimed) > 1

    eventually(claimed, 60)
    assert set(store.claimed) == set(store.asked)
    assert kernel.use is not None, "another process compiles it"
    cache.save(store.claimed[0], info, kernels.linked(image))

    def taken() -> bool:
        use.spent(kernel, 1)
        return kernel.use is None

    eventually(taken, 60)
    assert device.launch(module, "k", 1, 64, [out], options=TIER_1) == 0
    assert np.array_equal(device.download(out, "u4", 64), expected)


def test_full_code_on_disk_comes_before_light(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("FARLANE_CACHE_DIR", str(tmp_path))
    module = jit.parse_module(program(7))
    jit.compile_kernel(module, "k", (32, 1, 1), jit.Options())
    assert jit.compile_kernel(module, "k", (32, 1, 1), jit.Options(tier=1)).use is None
    again = jit.compile_kernel(module, "k", (64, 1, 1), jit.Options(tier=1))
    assert again.use is not None


def test_tiers_can_be_turned_off() -> None:
    assert tiers.options().tier == 1
    assert tiers.options(tiers=False).tier == 2


def test_another_version_s_compiler_is_not_used() -> None:
    """A process started now may be of the version that has taken the place of ours: its code need not fit what runs."""
    request = {"sources": "00" * 32, "name": "k", "block": [32, 1, 1], "options": {}}
    with pytest.raises(RuntimeError, match="files have changed"):
        compiler_main.compiled(json.dumps(request).encode(), program(8).encode())
