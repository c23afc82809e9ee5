"""Calls, barriers, and operations of a whole warp."""
