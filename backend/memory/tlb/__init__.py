"""The TLB hierarchy: private TLBs with directories and a mesh between them, a shared TLB, walkers (docs/explanation/systems.md, S3). A model of time, not of function.

    spec.py        what a hierarchy is made of
    stream.py      what it consumes: each core's page requests, in order
    counts.py      what it answers
    mesh.py        the network's geometry
    fast.py        the model, compiled (compiled/) over arrays (layout.py); tests/reference has it written to be read
    rivals.py      the hierarchies that S3's is compared with

`fast` is not imported from here: it brings numba, which a device without the model need not load.
"""

from farlane.backend.memory.tlb.counts import Counts
from farlane.backend.memory.tlb.spec import Spec, SpecError
from farlane.backend.memory.tlb.stream import Stream

__all__ = ["Counts", "Spec", "SpecError", "Stream"]
