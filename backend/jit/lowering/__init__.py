"""From graphs to LLVM IR: instruction families and emitters."""
