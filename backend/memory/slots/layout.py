"""The compiled dispatcher's arrays, and where in them is what. All are 64-bit and have two dimensions."""

from __future__ import annotations

# The table of arrays
(
    LIMITS,
    KERNELS,
    DURATIONS,
    STREAMS,  # (next kernel, end) in ORDER
    ORDER,  # kernels, stream by stream
    BLOCKS,  # [field, block], blocks by the order in which they are asked for
    CORES,
    FREE,  # [core, slot]: 1 when it is free
    WAITING,  # [core, place]: a ring of blocks
    LOADS,  # of each core: slots, blocks, number; FULL when no more may wait
    CHANGED,
    HEAP,  # of blocks, by their ends
    SCALARS,
    PLACED,  # (kernel, block, core, first slot or -1, asked, start, end), as they start
    SAMPLES,  # (cycle, slots in use)
) = range(15)
TABLES = 15

L_REGISTERS, L_THREADS, L_BLOCKS = range(3)
K_SLOTS, K_REGISTERS, K_THREADS, K_FIRST, K_BLOCKS, K_NEXT, K_ENDED, K_STREAM = range(8)
B_KERNEL, B_NUMBER, B_CORE, B_ASKED, B_START, B_END = range(6)
C_RESIDENT, C_WAITING, C_HEAD, C_REGISTERS, C_THREADS, C_USED, C_QUEUED = range(7)
V_USED, V_TURN, V_MINTED, V_HEAP, V_PLACED, V_SAMPLES = range(6)
FULL = 1 << 62
