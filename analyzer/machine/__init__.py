"""Decoded instructions as plain tuples, behind an interface that does not show which disassembler made them."""
