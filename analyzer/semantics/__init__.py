"""What each x86 instruction does to the values of registers and memory."""
