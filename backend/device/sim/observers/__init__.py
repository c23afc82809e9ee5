"""What looks at launches and copies: checks, the memory model, traces."""
