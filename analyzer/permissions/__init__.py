"""Permissions: which calls in a loop need not wait for the device, proven from the machine code (protos/manifest.md).

A prediction is checked when the program runs; a permission is not, so nothing here rests on `flow`'s values, and whatever is
not understood refuses. The parts, from the bottom:

- `domain`, `memory`: abstract values and states. Everything is asked per memory object: the frame, by offsets; an allocation; everything
  that existed before. Any two things may be the same unless they are different objects and the address of one has never
  become known where the other comes from.
- `instructions`, `calls`, `library`: what instructions and imported functions do to a state, and every access they make. An
  address escapes when it is stored where others find it, or given to a function that is not in the table, or to a kernel.
- `walk`: the abstract machine through one function, its callees executed in place. CUDA's calls succeed.
- `codes`: the error code is dead, or compared with 0 and the other way ends the program: by exit, abort, a failed assertion, or
  an exception in a program that never catches one. Through registers, cells, callees; to the callers when it is left in rax.
- `symbols`, `reachability`: `more`, by following the code from the site with expressions over what the site's registers and cells hold,
  up to where all ways lead back to the site. Leaving the loop, touching the destination (reading, writing, freeing, giving
  it away), calling what is not known, and returning are all one: not reached again.
- `prove`: puts them together for one site, and says how it was proven, or what stood in the way.

LOCAL_SYNC is about the code only. What else could tell that a synchronization did not happen is the device's memory seen by the
host (copies outstanding, mapped, registered or managed memory), time, callbacks, and the order of a kernel's printf: the shim
knows the first two, programs with callbacks get no permission, and whether an image prints the shim knows as well.

DEFER_READ holds for an identified object alone: part of the function's own frame or an allocation of its own, whose address nobody
else has when the copy is made. A destination that came from elsewhere (a parameter, a global) is refused: other threads, signal
handlers and callers may look at it at any time. So threads and handlers need no proof of their own.
"""
