"""What is known of a kernel before its code is written: divergence, affine values, uniformity, waiting loops."""
