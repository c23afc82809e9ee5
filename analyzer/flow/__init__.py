"""Values: what registers and memory hold, symbolically. Knows CUDA calls by their effects, not what loops make of them."""
