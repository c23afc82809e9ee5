"""The TLB hierarchy as compiled code: tests/reference/tlb_reference over arrays (tlb/layout.py), event for event.

    intrinsics.py the few operations that Numba has not
    search.py     looking through the entries of a set
    events.py     events in order: a wheel of cycles
    requests.py   a core's requests: hits, misses, peers
    shared.py     the shared TLB's port
    walks.py      the walkers, and what the end of a walk fills
    private.py    replies: private TLBs
    directory.py  what directories hear and answer
    records.py    what they all know
    run.py        events until none is left; the function that Python calls

Read the reference first; names and order are the same. What differs may not show in a count: dictionaries are arrays that are searched, what directories have in common is kept once, an
event knows the place of its miss, and a core makes requests ahead of its turn where nothing that others do can change what becomes of them (requests.py).

Importing one of these imports Numba. Only memory/native.py does.
"""
