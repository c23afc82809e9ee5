"""Runtime services: what kernels ask of their device while they run."""
