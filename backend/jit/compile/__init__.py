"""From LLVM IR to machine code: LLVM, the disk cache, the two tiers."""
