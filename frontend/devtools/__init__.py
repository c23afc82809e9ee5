"""Tools for developing and testing Farlane that are no part of the product: CUDA compilers installed on demand."""
