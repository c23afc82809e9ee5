"""Instructions that read and write memory at addresses."""
