"""What kernels are passed, as a program's fat binaries and registrations tell it: right where it is told, untold where
there is any doubt."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.graph import kernels
from farlane.analyzer.graph.program import Program
from farlane.analyzer.loader import elf, parameters
from farlane.analyzer.loader.image import Image, Segment
from farlane.analyzer.machine.decoder import Decoder
from hypothesis import given
from hypothesis import strategies as st

PTX = """.version 9.0
.target sm_75
.address_size 64
.visible .entry first(
    .param .u64 .ptr .align 1 first_param_0,  // where
    .param .align 4 .b8 first_param_1[12],
    .param .u8 first_param_2
)
{ ret; }
.entry none() { ret; }
.weak .entry bare
{ ret; }
.visible .entry last(.param .u64 .ptr .global .align 16 a, .param .f32 b, .param .b16 c) { ret; }
"""


def wrapped(*texts: str) -> bytes:
    """A fat binary of PTX texts, stored."""
    found = b""
    for text in texts:
        payload = text.encode() + bytes(-len(text) % 8)
        head = struct.pack("<HHIQIIHHIIIQQQ", 1, 0x0101, 0x50, len(payload), 0, 0x40, 0, 9, 75, 0, 0, 0x11, 0, 0)
        found += head + bytes(0x50 - len(head)) + payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(found)) + found


def holding(data: bytes) -> Image:
    segment = Segment(0x1000, data, False, False, ".nv_fatbin")
    return Image("made", "00", (segment,), (), {}, {}, {}, {}, 0, True)


def test_parameters_of_every_form() -> None:
    assert parameters.declared(PTX) == {"first": (8, 12, 1), "none": (), "bare": (), "last": (8, 4, 2)}
    assert parameters.sizes(holding(wrapped(PTX))) == {"first": (8, 12, 1), "none": (), "bare": (), "last": (8, 4, 2)}


@pytest.mark.parametrize(
    "parameter",
    [".param .texref t", ".param .pred p", ".param .u64", ".reg .u32 x", ".param .b8 x[0]", ".param .b8 x[99999]"],
)
def test_a_parameter_that_is_not_understood_tells_nothing_of_its_kernel(parameter: str) -> None:
    text = f".entry odd({parameter}) {{ ret; }} .entry plain(.param .u32 x) {{ ret; }}"
    assert parameters.sizes(holding(wrapped(text))) == {"plain": (4,)}


def test_kernels_of_one_name_that_differ_tell_nothing() -> None:
    texts = (
        ".entry same(.param .u32 x) {} .entry k(.param .u32 x) {}",
        ".entry same(.param .u32 x) {} .entry k(.param .u64 x) {}",
    )
    assert parameters.sizes(holding(wrapped(*texts))) == {"same": (4,)}
    assert parameters.sizes(holding(wrapped("".join(texts)))) == {"same": (4,)}


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 255))
def test_damaged_images_tell_nothing_or_what_they_hold(data: bytes, at: int, byte: int) -> None:
    parameters.sizes(holding(data))
    damaged = bytearray(wrapped(PTX))
    damaged[at % len(damaged)] = byte
    for found in parameters.sizes(holding(bytes(damaged))).values():
        assert all(0 < size <= parameters.MAXIMUM_BYTES for size in found)


SOURCE = """
extern "C" {
int __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
__attribute__((noipa)) void stub_first() {}
__attribute__((noipa)) void stub_last() {}
}
static inline __attribute__((always_inline)) void add(const void *host, const char *name) {
    __cudaRegisterFunction(nullptr, (const char *)host, (char *)name, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
}
volatile int chosen;
static __attribute__((constructor, always_inline)) inline void all() { REGISTER }
int main() { return chosen; }
"""
RUNTIME = """
extern "C" int __cudaRegisterFunction(
    void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *) { return 0; }
"""
ADD = 'add((void *)stub_{0}, "{0}");'
BOTH = ADD.format("first") + ADD.format("last")


@pytest.fixture
def program(build: Callable[..., Path], tmp_path: Path) -> Callable[..., tuple[Program, dict[str, int]]]:
    """A program with registrations and the PTX above; with the addresses of its functions."""

    def made(register: str, *options: str) -> tuple[Program, dict[str, int]]:
        data = ",".join(str(byte) for byte in wrapped(PTX))
        image = (
            f'__attribute__((section(".nv_fatbin,\\"a\\"#"), used)) static const unsigned char image[] = {{{data}}};'
        )
        text = image + SOURCE.replace("REGISTER", register)
        loaded = elf.load(build(text, *options, runtime=RUNTIME))
        return Program(loaded, Decoder()), {each.name: each.start for each in loaded.functions}

    return made


Made = Callable[..., tuple[Program, dict[str, int]]]
WAYS = [("-O2",), ("-O2", "-no-pie", "-fno-pie"), ("-O2", "-fPIC"), ("-O3", "-fno-plt"), ("-Os",)]


@pytest.mark.parametrize("options", WAYS, ids=" ".join)
def test_a_kernel_is_found_by_what_the_program_registers(program: Made, options: tuple[str, ...]) -> None:
    found, at = program(BOTH, *options)
    assert kernels.of(found).sizes(at["stub_first"]) == (8, 12, 1)
    assert kernels.of(found).sizes(at["stub_last"]) == (8, 4, 2)
    assert kernels.of(found).sizes(at["main"]) is None


@pytest.mark.parametrize(
    "between", ["cqo", "xchg %rdx, %r10", "pop %rdx; push %rdx", "addl $1, %edx", "cpuid", "movb $1, %dl", "mul %rdi"]
)
def test_what_stands_between_may_change_a_name(build: Callable[..., Path], between: str) -> None:
    """The name is put into %rdx, and then something else."""
    text = f"""
.section .nv_fatbin, "a"
.byte {",".join(str(byte) for byte in wrapped(PTX))}
.section .rodata
name: .string "first"
.text
.globl main
.type main, @function
main:
    lea main(%rip), %rsi
    lea name(%rip), %rcx
    mov %rcx, %rdx
    {{between}}
    call __cudaRegisterFunction@plt
    xor %eax, %eax
    ret
.size main, . - main
"""
    for each, expected in (("nop", (8, 12, 1)), (between, None)):
        loaded = elf.load(build(text.replace("{between}", each), runtime=RUNTIME, language="assembler"))
        (main,) = [function.start for function in loaded.functions if function.name == "main"]
        assert kernels.of(Program(loaded, Decoder())).sizes(main) == expected


@pytest.mark.parametrize(
    "register",
    [
        BOTH + 'add((void *)stub_first, "none");',
        BOTH + 'add((void *)stub_first, chosen ? "none" : "first");',
        BOTH + 'add(chosen ? (void *)stub_first : (void *)stub_last, "none");',
    ],
    ids=["twice", "name", "host"],
)
def test_one_doubtful_registration_leaves_all_untold(program: Made, register: str) -> None:
    found, at = program(register, "-O2")
    assert kernels.of(found).sizes(at["stub_first"]) is None
    assert kernels.of(found).sizes(at["stub_last"]) is None


def test_a_name_without_ptx_tells_nothing(program: Made) -> None:
    found, at = program(ADD.format("first") + 'add((void *)stub_last, "another");', "-O2")
    assert kernels.of(found).sizes(at["stub_first"]) == (8, 12, 1)
    assert kernels.of(found).sizes(at["stub_last"]) is None
