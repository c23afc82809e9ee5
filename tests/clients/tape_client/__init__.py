"""A client of the host in Python, for tests: it records calls on a tape as the shim does, without CUDA's face."""
