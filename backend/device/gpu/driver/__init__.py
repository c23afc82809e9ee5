"""CUDA's driver: what is asked of it, and how.

interface.py   what is asked
cuda.py        how: CuPy and libcuda
libraries.py   are they there? The only module that imports or loads them
prototypes.py, structures.py   functions that CuPy does not wrap, and their structures
errors.py      the driver's errors as CUDA's
"""
