"""What the planner is measured against, on the same traces: policies that decide while the program runs, and simpler ways to assign.

replay.py     the mechanism: residency, dirtiness, what moves; free placement or a contiguous allocator
lru.py        the least recently used goes
belady.py     the one needed last goes (known future)
assigning.py  segments assigned at random, or greedily
"""
