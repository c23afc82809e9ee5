"""Stack switching: the module assembly of each host architecture, and where a new fiber's first registers lie.

`farlane_switch(save, to)` pushes the callee-saved registers, stores the stack pointer to *save and continues on `to`. LLVM keeps no
vector register alive across the call except where the ABI says so. A new fiber starts in `farlane_start`, which calls
function(argument) and must not come back. `farlane_elsewhere(function, argument, stack)` calls function(argument) on the free part of
another stack, below a stack pointer that farlane_switch has stored.

Source: System V ABI for x86-64; AAPCS64. The AArch64 version was run under emulation only.
"""

from __future__ import annotations

import platform

from farlane.backend.jit.ptx.declarations import UnsupportedError

_X86_64 = """
.text
.p2align 4
farlane_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
.p2align 4
farlane_start:
  andq $-16, %rsp
  movq %rbx, %rdi
  callq *%r12
  ud2
.p2align 4
farlane_elsewhere:
  pushq %rbx
  movq %rsp, %rbx
  movq %rdx, %rsp
  andq $-16, %rsp
  movq %rdi, %rax
  movq %rsi, %rdi
  callq *%rax
  movq %rbx, %rsp
  popq %rbx
  retq
"""

_AARCH64 = """
.text
.p2align 4
farlane_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.p2align 4
farlane_start:
  mov x0, x20
  blr x19
  brk #1
.p2align 4
farlane_elsewhere:
  stp x29, x30, [sp, #-32]!
  str x19, [sp, #16]
  mov x19, sp
  mov sp, x2
  mov x9, x0
  mov x0, x1
  blr x9
  mov sp, x19
  ldr x19, [sp, #16]
  ldp x29, x30, [sp], #32
  ret
"""

# Offsets from the saved stack pointer: function register, argument register, return address.
_LAYOUT = {"x86_64": (_X86_64, 24, 32, 48), "aarch64": (_AARCH64, 0, 8, 88)}


def prepare(runtime: str, machine: str | None = None) -> str:
    """The runtime's text with the assembly before it and the layout filled in."""
    machine = (machine or platform.machine()).lower().replace("amd64", "x86_64").replace("arm64", "aarch64")
    if machine not in _LAYOUT:
        raise UnsupportedError(f"no fibers for the architecture {machine}")
    assembly, function, argument, start = _LAYOUT[machine]
    lines = [f'module asm "{line}"' for line in assembly.strip().splitlines()]
    text = (
        runtime.replace("FIBER_FUNCTION", str(function))
        .replace("FIBER_ARGUMENT", str(argument))
        .replace("FIBER_START", str(start))
    )
    return "\n".join(lines) + "\n" + text
