"""Symbolic values, and what is known of registers and memory at one point of a function."""
