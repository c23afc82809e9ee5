"""What functions outside the file do: CUDA's runtime and driver, the C and C++ libraries. Tables, no control flow."""
