"""The emitters: a function's code for warps, for warp groups, and for one lane after the other."""
