"""The TLB hierarchy written to be read: the specification of `farlane.backend.memory.tlb.fast`, which tests hold to it.

model.py      the events
decisions.py  whom to ask, whether to fill, whom to evict, as pure functions
"""
