"""The memory system of the simulated device: pure models and policies.

What is here knows nothing of devices, sessions or kernels: it takes numbers (addresses, sizes, orders, cycles) and answers with numbers. The
simulated device feeds it what programs do and reports what it says.

    slots/        where a block's shared memory goes in its core, and when (docs/explanation/systems.md, S5)
    translation/  groups of addresses with priorities: which physical address is meant (S2)
    replacement.py  which object leaves a full memory: LRU, Belady, plans
    planner/      what moves between device and host memory when there is too little of it (S4)
    paging/       frames, page tables, walks
    tlb/          private and shared TLBs, their directories and network (S3)

Anything simulated is a Spec (frozen), a State (all that changes; it round-trips through JSON) and functions over both. Policies are pure.
"""
