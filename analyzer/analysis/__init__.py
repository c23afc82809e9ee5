"""The analysis of a whole program: every function that reaches CUDA, its loops, in shares where it is large."""
