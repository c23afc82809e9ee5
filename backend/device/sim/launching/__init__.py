"""Modules and launches: what is admitted, who runs it, streams and events."""
