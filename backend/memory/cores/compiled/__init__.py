"""Putting requests in order, and leaving out what must hit, as compiled code: run.py. memory/native.py imports it; it imports Numba."""
