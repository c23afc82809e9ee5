"""Slices: what host code computes between a loop's CUDA calls from bytes that it has read, as small programs of their
own.

form.py says what a slice is, check.py when one is well-formed; extract.py makes them from machine code and proves
them. A slice is proven like a permission: it rests on no prediction.
"""
