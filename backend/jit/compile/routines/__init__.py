"""Compiled routines that are no kernel's: helpers, repeats, the comparison of pages."""
