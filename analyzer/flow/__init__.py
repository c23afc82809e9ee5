"""The values of a whole function by a fixed point, and what calls do: of CUDA, of libraries, of the program's own
functions."""
