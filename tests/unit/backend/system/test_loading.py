"""Objects in a process whose address space has been used: where there is room must not matter."""

from __future__ import annotations

import subprocess
import sys

# Two pages are free below three gigabytes that are taken, one page above them. Code of more than a page and its constants do not lie
# side by side then if each looks for a place on its own. In a process of its own, which LLVM would end.
SCENE = '''
import ctypes
import llvmlite.binding as llvm
from farlane.backend.jit.compile import native
from farlane.backend.jit.options import Options
from farlane.backend.system.loading import Loaded

PAGE, NOTHING, RESERVED = 4096, 0, 0x4022  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_uint64
libc.mmap.argtypes = (ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
libc.munmap.argtypes = (ctypes.c_uint64, ctypes.c_size_t)

def take(size):
    return libc.mmap(0, size, NOTHING, RESERVED, -1, 0)

def image(values):
    table = ", ".join(f"i32 {value}" for value in values)
    return native.compile_ir(f"""
@table = internal constant [{len(values)} x i32] [{table}]
define i32 @farlane_run(i64 %index, ptr %none) {{
  call void asm sideeffect ".skip 5000, 0x90", ""()
  %place = getelementptr i32, ptr @table, i64 %index
  %value = load i32, ptr %place
  ret i32 %value
}}""", Options())

def value(loaded, index):
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.c_void_p)(loaded.address)(index, None)

first, second = image((5, 70, 900)), image((6, 80, 1000))
early = Loaded(first, "farlane_run")  # and with it what the linker itself needs
wall = take(3 << 30)
holes = []
while not holes or holes[-1] > wall:
    holes.append(take(2 * PAGE))
libc.munmap(holes.pop(), 2 * PAGE)
libc.munmap(max(holes), PAGE)
late = Loaded(second, "farlane_run")
print([value(early, index) for index in range(3)], [value(late, index) for index in range(3)])
'''


def test_an_object_s_parts_lie_side_by_side_whatever_is_mapped() -> None:
    outcome = subprocess.run([sys.executable, "-c", SCENE], capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout) == (0, "[5, 70, 900] [6, 80, 1000]\n"), outcome.stderr
