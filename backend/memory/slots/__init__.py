"""Slots: a core's shared memory, given to blocks in runs of consecutive slots (docs/explanation/systems.md, S5).

    search.py      which runs of free slots are there: bit arithmetic
    policies/      which of them a block gets: the two-ended rule and its rivals, one per file
    allocator.py   one core's slots, the FIFO of those who wait, releases before allocations
    core.py        one core: slots, registers, threads and blocks together
    dispatcher.py  blocks of several kernels and streams on several cores, over time

A slot mask is an int: bit i is 1 when slot i is free.
"""
