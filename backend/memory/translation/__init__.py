"""The translation table: groups of addresses with priorities (docs/explanation/systems.md, S2, points 1 to 4).

groups.py    what a group is; the literal definition of a lookup
ranges.py    groups compiled into disjoint ranges, so that a lookup is a binary search
table.py     the table: atomic edits, lookups
segments.py  the first module: free physical segments as one contiguous virtual range
tasks.py     the second module: each task's program at the fixed range it expects
"""
