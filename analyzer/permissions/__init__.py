"""Permissions: which calls in a loop need not wait for the device, proven from the machine code (protos/manifest.md).

The shim checks a prediction when the program runs; it trusts a permission. So nothing here rests on `values`,
`semantics`, `flow` or `loops`, and whatever is not understood refuses. The parts, from the bottom:

- `abstract`: the abstract machine. It asks everything for each memory object: the frame, by offsets; an allocation;
  everything that existed before. Any two things may be the same unless they are different objects and the address of
  one has never become known where the other comes from. `instructions` and `calls` say what instructions and imported
  functions do to a state, and record every access. An address escapes when it is stored where others find it, or given
  to a function that is not in `externals.library.TRUSTED`; one that a kernel is given may come back (`memory`). `walk` runs the machine through one
  function, its callees executed in place. CUDA's calls succeed.
- `codes`: the error code is dead, or compared with 0 and the other way ends the program: by exit, abort, a failed
  assertion, or an exception in a program that never catches one. `tracker` follows it through registers, cells and
  callees, and into the callers when it is left in rax. `fast` judges most codes by the graph alone, `proof` the others.
- `reachability`: `more`, by following the code from the site with expressions over what the site's registers and cells
  hold, up to where all ways lead back to the site. Leaving the loop, touching the destination (reading, writing,
  freeing, giving it away), calling what is not known, and returning are all one: not reached again.
- `prove`: puts them together for one site, and says how it was proven, or what stood in the way.

LOCAL_SYNC is about the code only. What else could tell that a synchronization did not happen is the device's memory
seen by the host (copies outstanding, mapped, registered or managed memory), time, callbacks, and the order of a
kernel's printf: the shim knows the first two, programs with callbacks get no permission, and whether an image prints
the shim knows as well.

DEFER_READ holds for an identified object alone: part of the function's own frame or an allocation of its own, whose
address no other code has when the copy is made. A destination that came from elsewhere (a parameter, a global) is
refused: other threads, signal handlers and callers may look at it at any time. So threads and handlers need no proof of
their own.
"""
