"""Graphs of basic blocks, their static single assignment form, and what rewrites them."""
