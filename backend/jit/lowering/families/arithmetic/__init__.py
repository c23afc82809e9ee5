"""Instructions that compute from registers to registers."""
