"""The block dispatcher with the two-ended rule as compiled code: run.py. Importing it imports Numba; memory/native.py does."""
