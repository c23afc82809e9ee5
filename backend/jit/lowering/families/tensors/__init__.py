"""Instructions of matrices, tensors and asynchronous copies."""
