"""Planning the reuse of device memory: which objects share which space, so that little has to move (docs/explanation/systems.md, S4).

    trace.py       what a program accesses, in order; reading it from JSON
    merging.py     fewer accesses and fewer objects, before planning
    aside.py       objects that every step needs, kept out of the plan
    segments.py    the N largest objects and their segments
    cost.py        what moves when given objects share one segment; the plan
    genetic.py     the search
    exhaustive.py  the best plan there is, for few objects
    greedy.py      a simpler assignment
    assigned.py    a plan as a replacement policy (memory/replacement.py), for a device that reuses memory
    replay.py      what moves on a trace under a replacement policy, also under a contiguous allocator

Bytes moved between host and device are what is counted, in both directions.
"""
