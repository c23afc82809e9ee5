"""Control flow: functions, blocks, the call graph, dominators, loops. Knows nothing of values."""
