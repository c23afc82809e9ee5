"""The kernels that benchmarks/compiler/jit.py times, and the ways to run them.

- kernels.inc, portable.h: the kernels, one text for CUDA and OpenCL; loops.c: the C loops a user would write instead.
- suite.py: for each kernel its data, launches, loop and numpy expression. runners.py: simulated device, gcc, numpy.
- pocl.py: PoCL through pyopencl. numba_simulator.py: Numba's CUDA simulator, a script of its own.
A new kernel goes into kernels.inc and loops.c, and a function of suite.py.
"""
