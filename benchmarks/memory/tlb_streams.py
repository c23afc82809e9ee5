"""Page requests of nine programs, from the index arithmetic of their kernels.

Generated streams, not recorded ones: they stand in until the simulated device feeds the model what kernels really touch. What is exact is which addresses each warp
instruction of the kernels named reads and writes; what is assumed is their interleaving: blocks go to cores in turn, a core keeps as many blocks as 2048
threads allow (eight at most), its warps take turns, and a core issues one instruction a cycle. `gap` of a kernel is how many instructions it has per memory
instruction, counted in its loop; the cycles between two vary from 1 to twice that (a fixed random sequence), so that cores do not march in step for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from farlane.backend.memory.paging import Frames, PageTable
from farlane.backend.memory.tlb import Stream

Ints = npt.NDArray[np.int64]
LANES = np.arange(32, dtype=np.int64)
BASE = 0x7F00_0000_0000 & ~((2 << 20) - 1)
WORD = 4


class Space:
    """Arrays of a program, each from a multiple of 2 MiB on."""

    def __init__(self) -> None:
        self.next = BASE
        self.arrays: list[tuple[int, int]] = []

    def array(self, size: int) -> int:
        address = self.next
        self.arrays.append((address, size))
        self.next += -(-size // (2 << 20)) * (2 << 20) + (2 << 20)
        return address

    def table(self, page_bytes: int) -> PageTable:
        frames, table = Frames(8 << 30, order="scattered"), PageTable()
        for address, size in self.arrays:
            table.map(address, frames.allocate(page_bytes, -(-size // page_bytes)), page_bytes)
        return table


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One memory instruction of some warps: which block, which warp of it, and the address of each lane (-1: takes no part)."""

    block: Ints
    warp: Ints
    address: Ints  # [warps, lanes]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A launch: the threads of a block, and instructions per memory instruction, and the memory instructions in order."""

    threads: int
    gap: int
    instructions: list[Instruction]


@dataclasses.dataclass(frozen=True)
class Program:
    """A name, what its kernels do, the arrays, and the launches."""

    name: str
    about: str
    space: Space
    kernels: list[Kernel]

    def streams(self, cores: int, page_shift: int) -> Iterator[Stream]:
        """One for each launch."""
        for kernel in self.kernels:
            yield _stream(kernel, cores, page_shift)


def _stream(kernel: Kernel, cores: int, page_shift: int) -> Stream:
    resident = max(1, min(8, 2048 // kernel.threads))
    warps = -(-kernel.threads // 32)
    parts = []
    for step, instruction in enumerate(kernel.instructions):
        core, turn = instruction.block % cores, instruction.block // cores
        wave, place = turn // resident, turn % resident
        order = ((core * 4096 + wave) * 4096 + step) * 512 + place * warps + instruction.warp
        pages = (instruction.address >> page_shift) - (BASE >> page_shift)
        pairs = (order[:, None] << 21) | np.where(instruction.address < 0, (1 << 21) - 1, pages)
        parts.append(np.unique(pairs[np.broadcast_to(instruction.address >= 0, pairs.shape)]))
    keys = np.sort(np.concatenate(parts))
    first = np.ones(len(keys), dtype=bool)  # of an instruction; its other pages follow a cycle apart
    first[1:] = keys[1:] >> 21 != keys[:-1] >> 21
    gaps = np.where(first, np.random.default_rng(4).integers(1, 2 * kernel.gap, len(keys)), 1)
    return Stream.of(cores, keys >> (21 + 9 + 12 + 12), (keys & ((1 << 21) - 1)) + (BASE >> page_shift), gaps)


def _grid(blocks: int, warps: int) -> tuple[Ints, Ints]:
    number = np.arange(blocks * warps, dtype=np.int64)
    return number // warps, number % warps


def gemm(n: int = 512) -> Program:
    space = Space()
    a, b, c = (space.array(n * n * WORD) for _ in range(3))
    block, warp = _grid((n // 32) ** 2, 32)
    row, column = block // (n // 32) * 32, block % (n // 32) * 32
    steps = []
    for k in range(0, n, 32):
        steps.append(Instruction(block, warp, a + (((row + warp) * n + k)[:, None] + LANES) * WORD))
        steps.append(Instruction(block, warp, b + (((k + warp) * n + column)[:, None] + LANES) * WORD))
    steps.append(Instruction(block, warp, c + (((row + warp) * n + column)[:, None] + LANES) * WORD))
    return Program("gemm", f"C = A B, {n} x {n}, tiles of 32 in shared memory", space, [Kernel(1024, 48, steps)])


def transpose(n: int = 2048) -> Program:
    space = Space()
    source, target = space.array(n * n * WORD), space.array(n * n * WORD)
    block, warp = _grid((n // 32) ** 2, 8)
    y, x = block // (n // 32) * 32, block % (n // 32) * 32
    steps = [
        Instruction(block, warp, source + (((y + warp + i) * n + x)[:, None] + LANES) * WORD) for i in range(0, 32, 8)
    ]
    steps += [
        Instruction(block, warp, target + (((x + warp + i) * n + y)[:, None] + LANES) * WORD) for i in range(0, 32, 8)
    ]
    return Program("transpose", f"{n} x {n}, tiles of 32 through shared memory", space, [Kernel(256, 4, steps)])


def stencil(n: int = 2048, rounds: int = 1) -> Program:
    space = Space()
    grids = [space.array(n * n * WORD), space.array(n * n * WORD)]
    block, warp = _grid(n // 32 * (n // 8), 8)
    y = (block // (n // 32) * 8 + warp)[:, None]
    x = (block % (n // 32) * 32)[:, None] + LANES
    kernels = []
    for number in range(rounds):
        source, target = grids[number % 2], grids[1 - number % 2]
        steps = []
        for dy, dx in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)):
            inside = (y + dy >= 0) & (y + dy < n) & (x + dx >= 0) & (x + dx < n)
            steps.append(Instruction(block, warp, np.where(inside, source + ((y + dy) * n + x + dx) * WORD, -1)))
        steps.append(Instruction(block, warp, target + (y * n + x) * WORD))
        kernels.append(Kernel(256, 3, steps))
    return Program("stencil", f"five points, {n} x {n}, blocks of 32 x 8, {rounds} rounds", space, kernels)


def spmv(rows: int = 8192, columns: int = 1 << 21) -> Program:
    random = np.random.default_rng(1)
    space = Space()
    starts, index, value = space.array((rows + 1) * WORD), space.array(rows * 32 * WORD), space.array(rows * 32 * WORD)
    x, y = space.array(columns * WORD), space.array(rows * WORD)
    block, warp = _grid(rows // 8, 8)
    row = block * 8 + warp
    column = random.integers(0, columns, (rows, 32))
    steps = [
        Instruction(block, warp, starts + row[:, None] * WORD),
        Instruction(block, warp, index + (row[:, None] * 32 + LANES) * WORD),
        Instruction(block, warp, value + (row[:, None] * 32 + LANES) * WORD),
        Instruction(block, warp, x + column[row] * WORD),
        Instruction(block, warp, y + row[:, None] * WORD),
    ]
    about = f"CSR, a warp per row, {rows} rows of 32, columns random of {columns}"
    return Program("spmv", about, space, [Kernel(256, 4, steps)])


def bfs(scale: int = 16, degree: int = 8) -> Program:
    """Level by level, a thread per node, on a graph whose nodes are chosen with a power law (R-MAT's quadrants)."""
    random = np.random.default_rng(2)
    nodes, edges = 1 << scale, degree << scale
    source, target = np.zeros(edges, dtype=np.int64), np.zeros(edges, dtype=np.int64)
    for bit in range(scale):
        quadrant = random.choice(4, edges, p=(0.57, 0.19, 0.19, 0.05))
        source |= (quadrant // 2) << bit
        target |= (quadrant % 2) << bit
    shuffle = random.permutation(nodes)
    source, target = shuffle[source], shuffle[target]
    order = np.argsort(source, kind="stable")
    target = target[order]
    starts = np.searchsorted(source[order], np.arange(nodes + 1)).astype(np.int64)
    space = Space()
    offset, edge, cost, mask = (space.array(size * WORD) for size in (nodes + 1, edges, nodes, nodes))
    level = np.full(nodes, -1)
    level[int(np.argmax(np.diff(starts)))] = 0
    block, warp = _grid(nodes // 256, 8)
    node = (block * 8 + warp)[:, None] * 32 + LANES
    kernels = []
    for depth in range(6):
        active = level[node] == depth
        if not active.any():
            break
        some = active.any(axis=1)
        b, w, who, on = block[some], warp[some], node[some], active[some]
        steps = [Instruction(block, warp, mask + node * WORD), Instruction(b, w, np.where(on, offset + who * WORD, -1))]
        for k in range(min(64, int((starts[who + 1] - starts[who])[on].max()))):
            has = on & (starts[who] + k < starts[who + 1])
            at = np.where(has, starts[who] + k, 0)
            busy = has.any(axis=1)
            steps.append(Instruction(b[busy], w[busy], np.where(has, edge + at * WORD, -1)[busy]))
            steps.append(Instruction(b[busy], w[busy], np.where(has, cost + target[at] * WORD, -1)[busy]))
        frontier = np.flatnonzero(level == depth)
        reached = np.concatenate([target[starts[n] : starts[n + 1]] for n in frontier])
        fresh = reached[level[reached] < 0]
        level[fresh] = depth + 1
        kernels.append(Kernel(256, 5, steps))
    return Program(
        "bfs", f"level by level, 2^{scale} nodes, {edges} edges by a power law, 64 per node at most", space, kernels
    )


def fft(bits: int = 19) -> Program:
    """Stockham, radix 2, a kernel per stage, complex numbers of 8 bytes."""
    n = 1 << bits
    space = Space()
    buffers = [space.array(n * 8), space.array(n * 8)]
    block, warp = _grid(n // 2 // 256, 8)
    thread = (block * 8 + warp)[:, None] * 32 + LANES
    kernels = []
    for stage in range(bits):
        source, target = buffers[stage % 2], buffers[1 - stage % 2]
        span = 1 << stage
        out = thread // span * 2 * span + thread % span
        addresses = (source + thread * 8, source + (thread + n // 2) * 8, target + out * 8, target + (out + span) * 8)
        kernels.append(Kernel(256, 8, [Instruction(block, warp, address) for address in addresses]))
    return Program("fft", f"2^{bits} points, radix 2, a kernel per stage", space, kernels)


def gups(table_bytes: int = 64 << 20, updates: int = 1 << 17) -> Program:
    random = np.random.default_rng(3)
    space = Space()
    table = space.array(table_bytes)
    block, warp = _grid(updates // 256, 8)
    address = table + random.integers(0, table_bytes // 8, (len(block), 32)) * 8
    steps = [Instruction(block, warp, address), Instruction(block, warp, address)]
    return Program("gups", f"{updates} random updates of {table_bytes >> 20} MiB", space, [Kernel(256, 6, steps)])


def kmeans(points: int = 1 << 15, features: int = 32, clusters: int = 5) -> Program:
    space = Space()
    data, centre, out = (
        space.array(points * features * WORD),
        space.array(clusters * features * WORD),
        space.array(points * WORD),
    )
    block, warp = _grid(points // 256, 8)
    thread = (block * 8 + warp)[:, None] * 32 + LANES
    steps = []
    for cluster in range(clusters):
        for feature in range(features):
            steps.append(Instruction(block, warp, data + (feature * points + thread) * WORD))
            steps.append(Instruction(block, warp, centre + (cluster * features + feature) * WORD + 0 * thread))
    steps.append(Instruction(block, warp, out + thread * WORD))
    about = f"nearest of {clusters} centres, {points} points of {features} features, stored by feature"
    return Program("kmeans", about, space, [Kernel(256, 3, steps)])


def reduction(count: int = 1 << 23) -> Program:
    space = Space()
    data, out = space.array(count * WORD), space.array(4096)
    blocks = 512
    block, warp = _grid(blocks, 8)
    thread = (block * 8 + warp)[:, None] * 32 + LANES
    steps = [Instruction(block, warp, data + (thread + i) * WORD) for i in range(0, count, blocks * 256)]
    steps.append(Instruction(block, warp, out + block[:, None] * WORD))
    return Program(
        "reduction",
        f"sum of 2^{count.bit_length() - 1} numbers, {blocks} blocks in strides of the grid",
        space,
        [Kernel(256, 3, steps)],
    )


PROGRAMS: dict[str, Callable[[], Program]] = {
    "gemm": gemm,
    "transpose": transpose,
    "stencil": stencil,
    "spmv": spmv,
    "bfs": bfs,
    "fft": fft,
    "gups": gups,
    "kmeans": kmeans,
    "reduction": reduction,
}
