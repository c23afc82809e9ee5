"""Machine code in the operations of a slice: what each instruction and each call does to registers and memory."""
