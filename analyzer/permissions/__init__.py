"""Permissions: which calls in a loop need not wait for the device, proven from the machine code."""
