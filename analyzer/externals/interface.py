"""CUDA's calls as the analysis sees them, the runtime's and the driver's alike: what each argument is.

The rows are in `runtime` and `driver`; here they are one table.

A role is a letter, with a number where it counts bytes:

- v: a value that the host of the device needs (a device address, a handle, a size): it is an argument in the sense of
  the classes; w: the same, 32 bits
- d: a descriptor in host memory, read and not kept
- s: host memory read by the call; h: host memory written by the call (a copy to the host)
- oN: the call writes N bytes there, its result, and does not keep the address
- O: it writes an unknown number of bytes there
- -: of no interest (attributes, names, flags of host memory)
"""

from __future__ import annotations

from functools import cache

from farlane.analyzer.externals import driver, runtime
from farlane.analyzer.externals.forms import Copy, Launch, StructuredCopy

PUSH, POP, GET_KERNEL = "__cudaPushCallConfiguration", "__cudaPopCallConfiguration", "__cudaGetKernel"
LAUNCH = "launch"  # what all launches are called

LAUNCHES: dict[str, Launch] = {**runtime.LAUNCHES, **driver.LAUNCHES}
COPIES: dict[str, Copy] = {**runtime.COPIES, **driver.COPIES}
STRUCTURED_COPIES: dict[str, StructuredCopy] = driver.STRUCTURED_COPIES
FROM_SYMBOL = runtime.FROM_SYMBOL
ANY_COPIES = frozenset({*COPIES, *STRUCTURED_COPIES, *FROM_SYMBOL})

ROLES: dict[str, str] = {**runtime.ROLES, **driver.ROLES}
# The same of calls of which permissions know nothing: predictions are checked when the program runs, so what these
# calls do later (a captured copy, when its graph is launched) may be left out here. Arguments from the seventh on are
# not told.
PREDICTED: dict[str, str] = {**runtime.PREDICTED, **driver.PREDICTED}
# How many bytes calls with role O write at most, by the name in the program: it changes when the structure grows.
WRITES: dict[str, int] = {**runtime.WRITES, **driver.WRITES}
# The 64-bit arguments (role v) that are numbers; the others may be addresses of the program's own objects.
NUMBERS: dict[str, frozenset[int]] = {**runtime.NUMBERS, **driver.NUMBERS}

# What answers the same whenever it is asked the same: facts of devices and of the installation.
CONSTANT_ANSWERS = runtime.CONSTANT_ANSWERS | driver.CONSTANT_ANSWERS
# What returns a structure: its address, which is given as the first argument, is also the result.
STRUCTURES = runtime.STRUCTURES
# What returns host memory that nothing else points to, through its first argument.
HOST_ALLOCATORS = runtime.HOST_ALLOCATORS | driver.HOST_ALLOCATORS
# What puts memory within the reach of both the program and the device.
SHARES = HOST_ALLOCATORS | {
    *("cudaHostRegister", "cudaHostGetDevicePointer", "__cudaRegisterManagedVar", "cuMemHostRegister"),
    *("cuMemHostGetDevicePointer", "cuMemCreate"),
}
# What waits for the device; what asks it for something that only it knows.
SYNCHRONIZES = runtime.SYNCHRONIZES | driver.SYNCHRONIZES
QUERIES = runtime.QUERIES | driver.QUERIES
# Their answers are no error codes that are success as long as nothing fails.
NO_CODES = runtime.NO_CODES | driver.NO_CODES

# For permissions:

# Where calls touch host memory, beside `ROLES`, in the letters of `library`; "h" new memory is put there.
TOUCHES: dict[str, str] = {**runtime.TOUCHES, **driver.TOUCHES}
# Those that may copy to the host.
COPIES_TO_HOST = runtime.COPIES_TO_HOST | driver.COPIES_TO_HOST
# Those that synchronize and return a code, and nothing else.
WAITS = runtime.WAITS | driver.WAITS
# Those that reach the shim and complete what is outstanding: real work, no bookkeeping.
COMPLETES = runtime.COMPLETES | driver.COMPLETES
# Those copies to the host that may join the next call that waits; what they join beside each other.
JOINS = runtime.JOINS | driver.JOINS
JOINED = runtime.JOINED | driver.JOINED
# Those that let functions of the program's run where none is called.
CALLS_BACK = runtime.CALLS_BACK | driver.CALLS_BACK


def roles(name: str) -> str | None:
    """The roles of a call's arguments for predictions; None: it may do anything."""
    known = ROLES.get(name)
    return PREDICTED.get(name) if known is None else known


@cache
def plain(name: str) -> str:
    """The name without what tells default streams and versions apart; a first version that differs keeps a name
    apart."""
    for suffix in ("_ptsz", "_ptds"):
        name = name.removesuffix(suffix)
    return f"{name}_v1" if name in driver.FIRST_VERSIONS else name.removesuffix("_v2")
