"""`more` against what programs do: a library in CUDA's place notes every call with registers and frame, then the code
is evaluated.

Where `more` is 1, the same call instruction is the next one of its loop: in these programs, the next of all calls from
the function.
"""

from __future__ import annotations

import itertools
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from farlane.analyzer.graph.program import Program
from farlane.analyzer.loader import elf
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.permissions.model import Permission
from farlane.analyzer.permissions.prove import Prover
from farlane.analyzer.postfix import binary

FRAME = 512
# Notes rbx, rsp, rbp, r12-r15 as at the call instruction, the return address, and the frame.
LIBRARY = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
extern "C" void note(const unsigned long *held) {
    static FILE *file = fopen(getenv("NOTES"), "w");
    fwrite(held, 8, 8, file);
    fwrite((const char *)held[1], 1, 512, file);
    fflush(file);
}
extern "C" int copied(void *to, const void *, unsigned long size) { memset(to, 1, size); return 0; }
asm(R"(
.globl cudaMemcpy
.type cudaMemcpy, @function
cudaMemcpy:
    push %rdi; push %rsi; push %rdx
    lea 32(%rsp), %rax
    push 24(%rsp); push %r15; push %r14; push %r13; push %r12; push %rbp; push %rax; push %rbx
    mov %rsp, %rdi
    call note
    add $64, %rsp
    pop %rdx; pop %rsi; pop %rdi
    jmp copied
)");
extern "C" int cudaDeviceSynchronize() { return 0; }
"""
# Loops whose copies go to a buffer of their own that nothing else touches; the body is the argument of L.
SOURCE = """
#include <cstdlib>
#include <cstdint>
#include <cstdio>
extern "C" int cudaMemcpy(void *, const void *, size_t, int);
extern "C" int cudaDeviceSynchronize();
volatile double sink;
#define CASE(name) extern "C" __attribute__((noinline, noipa)) void name(int n, long m, unsigned u, signed char c)
#define COPY cudaMemcpy(host, 0, 4, 2)
#define BUFFER float *host = (float *)malloc(64)
#define END sink = host[0]; free(host)
CASE(up) { BUFFER; for (int i = 0; i < n; ++i) COPY; END; }
CASE(up_to) { BUFFER; for (int i = 3; i <= n; i += 2) COPY; END; }
CASE(down) { BUFFER; for (int i = n; i > -2; --i) COPY; END; }
CASE(down_by) { BUFFER; for (int i = n * 3; i >= 0; i -= 4) COPY; END; }
CASE(until) { BUFFER; for (int i = 0; i != n; ++i) COPY; END; }
CASE(wide) { BUFFER; for (long i = -m; i < m; i += 3) COPY; END; }
CASE(wide_down) { BUFFER; while (m-- > 0) COPY; END; }
CASE(of_unsigned) { BUFFER; for (unsigned i = u; i > 2; i -= 2) { COPY; if (i < 4) break; } END; }
CASE(of_bytes) { BUFFER; for (signed char i = 0; i < c; ++i) COPY; END; }
CASE(of_unsigned_bytes) { BUFFER; for (unsigned char i = 250; i != (unsigned char)c; ++i) COPY; END; }
CASE(of_shorts) { BUFFER; for (unsigned short i = 65530; i != (unsigned short)n; ++i) COPY; END; }
CASE(halved) { BUFFER; for (int i = n * 100; i > 0; i >>= 1) COPY; END; }
CASE(doubled) { BUFFER; for (long i = 1; i < m * 50; i <<= 1) COPY; END; }
CASE(multiplied) { BUFFER; for (unsigned i = 1; i < u * 90; i *= 3) COPY; END; }
CASE(do_while) { BUFFER; int i = 0; do { COPY; i += 2; } while (i < n); END; }
CASE(two_bounds) { BUFFER; for (int i = 0; i < n && i * i < 60; ++i) COPY; END; }
CASE(either) { BUFFER; for (int i = 0; i < n || i < m; ++i) COPY; END; }
CASE(left_early) { BUFFER; for (int i = 0; i < n; ++i) { COPY; if (i == 5) break; } END; }
CASE(read_now_and_then) { BUFFER; for (int i = 0; i < n; ++i) { COPY; if (i % 4 == 3) sink = host[0]; } END; }
CASE(skipped_now_and_then) { BUFFER; for (int i = 0; i < n; ++i) { if (i % 3) COPY; } END; }
CASE(nested) { BUFFER; for (int i = 0; i < n; ++i) for (int j = i; j < 4; ++j) COPY; END; }
CASE(around) { BUFFER; for (int i = 0; i < n; ++i) { COPY; for (int j = 0; j < i; ++j) sink = sink + j; } END; }
CASE(moving) { float *host = (float *)malloc(4096), *to = host; for (int i = 0; i < n; ++i) { cudaMemcpy(to, 0, 4, 2); to += 2; } END; }
CASE(by_pointer) { char *host = (char *)malloc(4096); for (char *to = host; to < host + 4 * n; to += 4) cudaMemcpy(to, 0, 4, 2); END; }
CASE(in_frame) { float host[16]; for (int i = 0; i < n; ++i) COPY; sink = host[n & 15]; }
CASE(masked) { BUFFER; for (unsigned i = 1; (i & 31) != (u & 31); i += 1) COPY; END; }
CASE(late) { BUFFER; int stop = 0; for (int i = 0; !stop; ++i) { COPY; stop = i >= n; } END; }
int main(int argc, char **) {
    for (int n = -1; n < 14; ++n) {
        long m = n; unsigned u = n < 0 ? 0 : n; signed char c = n;
#define RUN(name) name(n, m, u, c);
        RUN(up) RUN(up_to) RUN(down) RUN(down_by) RUN(wide) RUN(wide_down) RUN(of_unsigned) RUN(of_bytes) RUN(of_unsigned_bytes)
        RUN(halved) RUN(doubled) RUN(multiplied) RUN(do_while) RUN(two_bounds) RUN(either) RUN(left_early) RUN(read_now_and_then)
        RUN(skipped_now_and_then) RUN(nested) RUN(around) RUN(moving) RUN(by_pointer) RUN(in_frame) RUN(late)
        if (n >= 0) { RUN(until) RUN(of_shorts) if (n > 1) RUN(masked) }
        cudaDeviceSynchronize();
    }
}
"""
CASES = SOURCE.count("\nCASE(")
REGISTERS = (3, 4, 5, 12, 13, 14, 15)


class Note(NamedTuple):
    registers: dict[int, int]
    returns: int
    frame: bytes


def notes(data: bytes) -> Iterator[Note]:
    for at in range(0, len(data), 64 + FRAME):
        *held, returns = struct.unpack_from("<8Q", data, at)
        yield Note(dict(zip(REGISTERS, held, strict=True)), returns, data[at + 64 : at + 64 + FRAME])


def value(code: bytes, note: Note) -> int:
    """What postfix code (protos/manifest.md) leaves."""
    names = dict(enumerate(("add", "sub", "mul", "and", "or", "xor", "shl", "shr", "sar"), 0x10))
    names |= dict(enumerate(("eq", "ne", "ult", "ule", "slt", "sle"), 0x30))
    stack: list[int] = []
    at = 0
    while code[at]:
        operation, at = code[at], at + 1
        if operation == 1:
            stack.append(struct.unpack_from("<Q", code, at)[0])
            at += 8
        elif operation == 2:
            stack.append(note.registers[code[at]])
            at += 1
        elif operation == 3:
            offset, size = struct.unpack_from("<IB", code, at)
            assert offset + size <= FRAME
            stack.append(int.from_bytes(note.frame[offset : offset + size], "little"))
            at += 5
        elif operation in (0x20, 0x21):
            bits = 8 * code[at]
            low = stack.pop() & ((1 << bits) - 1)
            if operation == 0x21 and low >> (bits - 1):
                low -= 1 << bits
            stack.append(low & (2**64 - 1))
            at += 1
        else:
            second, first = stack.pop(), stack.pop()
            value = binary(names[operation], first, second)
            assert value is not None
            stack.append(value & (2**64 - 1))
    assert at == len(code) - 1
    (result,) = stack
    assert result in (0, 1)
    return result


@pytest.mark.parametrize(
    "options", [("-O0",), ("-O1",), ("-O2",), ("-O3",), ("-Os",), ("-O2", "-no-pie"), ("-O3", "-mavx2")], ids=" ".join
)
def test_where_more_is_one_the_site_comes_next(
    build: Callable[..., Path], tmp_path: Path, options: tuple[str, ...]
) -> None:
    library = build(LIBRARY, "-shared", "-fPIC", "-O1")
    program = build(SOURCE, *options, "-x", "none", str(library))
    given = permissions(program)
    output = tmp_path / "notes"
    subprocess.run([program], env={"NOTES": str(output), "LD_LIBRARY_PATH": str(library.parent)}, check=True)
    calls = list(notes(output.read_bytes()))
    bias = next(b for b in biases(calls, given) if b % 4096 == 0)
    proven = {each.return_address + bias: each for each in given.values() if each.more}
    assert len(proven) >= 0.75 * CASES, {each.refused for each in given.values()}
    ones = 0
    for call, following in itertools.pairwise(calls):
        permission = proven.get(call.returns)
        if permission is not None and value(permission.more, call):
            assert following.returns == call.returns, permission.more_text
            ones += 1
    # And it is 1 nearly as often as that is so.
    again = sum(a.returns == b.returns and a.returns in proven for a, b in itertools.pairwise(calls))
    assert ones > 0.6 * again


def biases(calls: list[Note], given: dict[int, Permission]) -> Iterator[int]:
    """Where the program may be loaded: every call returns to a known place."""
    known = {each.return_address for each in given.values()}
    seen = {call.returns for call in calls}
    for address in sorted(known):
        bias = min(seen) - address
        if {place - bias for place in seen} <= known:
            yield bias


def permissions(program: Path) -> dict[int, Permission]:
    image = Program(elf.load(program), Decoder())
    prover = Prover(image)
    found: dict[int, Permission] = {}
    for start in sorted(image.cuda):
        for site in prover.structure(start).flow.calls:
            permission = prover.permission(start, site)
            if permission is not None:
                found[site] = permission
    return found
