"""A session's memory on a GPU: its addresses, what is behind them, how bytes get in, out and across.

window.py    addresses and the memory mapped there
memory.py    allocations, copies and sets
staging.py   pinned memory on the way in and out
textures.py, boxes.py   arrays, textures and surfaces; the boxes that copies of arrays are made of
"""
