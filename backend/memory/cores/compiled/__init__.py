"""Putting requests in order, and leaving out what must hit, as compiled code: run.py. memory/native.py imports it when there is no object file of it yet; it imports Numba."""
