"""What the corpus' tests and benchmarks share: its builds, what is expected, and reading manifests."""
