"""Bounds that guests, hosts and the analyzer keep alike: `farlane.limits.generated` has them, from `protos/limits.toml`."""
