"""Proofs about error codes: a code is unused, or compared with success and the other way ends the program."""
