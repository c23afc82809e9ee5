"""What compiled kernels run on: the parts of their LLVM modules that are the same for all (ir/), arenas, and services."""
