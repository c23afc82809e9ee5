"""The lowest place of a frame whose address is taken, and what lies below it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.graph import structure
from farlane.analyzer.graph.frame import lowest_taken
from farlane.analyzer.graph.program import Program
from farlane.analyzer.loader import elf
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.values.expression import OPERATION, Values
from farlane.analyzer.values.memory import Memory
from farlane.analyzer.values.state import State

SOURCE = """
.intel_syntax noprefix
.globl main
.type main, @function
main:
{body}
    ret
.size main, .-main
.section .note.GNU-stack, "", @progbits
"""


@pytest.mark.parametrize(
    ("body", "lowest"),
    [
        ("sub rsp, 40\nlea rdi, [rsp + 16]\nlea rsi, [rsp + 24]\nmov [rsp + 8], rdi\nadd rsp, 40", -24),
        ("push rbx\nsub rsp, 32\nmov rbx, rsp\nadd rsp, 32\npop rbx", -40),
        ("push rbp\nmov rbp, rsp\nsub rsp, 64\nlea rax, [rbp - 48]\nmov [rbp - 56], rax\nleave", -56),
        ("sub rsp, 64\nmov eax, [rsp + rcx * 4 + 16]\nadd rsp, 64", -48),
        ("push 1\npush rsp\nadd rsp, 16", -8),
        ("sub rsp, 24\ntest edi, edi\nje 1f\nlea rax, [rsp + 8]\n1: add rsp, 24", -16),
        ("sub rsp, 24\nmov [rsp], rdi\nadd rsp, 24", None),
        ("sub rsp, rdi\nlea rax, [rsp]\nadd rsp, rdi", None),
        ("push rbp\nmov rbp, rsp\nand rsp, -32\nlea rax, [rsp]\nleave", None),
        ("test edi, edi\nje 1f\npush rax\n1: lea rax, [rsp - 8]\nmov rsp, rax", None),
    ],
)
def test_the_lowest_address_that_is_taken(build: Callable[..., Path], body: str, lowest: int | None) -> None:
    program = Program(elf.load(build(SOURCE.format(body=body), language="assembler")), Decoder())
    (main,) = [start for start, function in program.ranges.items() if function.name == "main"]
    assert lowest_taken(structure.build(program, main).flow) == lowest


@pytest.mark.parametrize("bottom", [None, -100, -200])
def test_an_address_that_is_not_followed_is_none_below(build: Callable[..., Path], bottom: int | None) -> None:
    memory = Memory(Values(), elf.load(build("int main() { return 0; }")), separate=True)
    memory.bottom = bottom
    state, values = State.at_entry(memory), memory.values
    below, above = values.add(values.stack_pointer, -200), values.add(values.stack_pointer, -50)
    for place in (below, above):
        state.write(place, 8, values.constant(5), 0x10)
    unknown = values.atom(OPERATION, "or", values.add(values.stack_pointer, -80), values.constant(3))
    assert unknown.stack
    assert unknown.low is None
    state.write(unknown, 8, values.zero, 0x20)
    assert state.read(below, 8).is_constant == (bottom == -100)
    assert not state.read(above, 8).is_constant
