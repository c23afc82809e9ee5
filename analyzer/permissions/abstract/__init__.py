"""The abstract machine that proofs rest on: values as sets of memory objects, every access recorded."""
