"""Register tiles: kernels whose threads keep a tile of sums in registers, as fast matrix products do.

A thread of such a kernel has, say, 8x8 sums. At every step along k it adds to each sum the product of one of 8 left
factors and one of 8 right factors. Its text has all steps between two barriers unrolled: hundreds of additions, first
all sums' for one step, then all for the next. A GPU has registers for so many sums. Here each sum of a warp takes two
vector registers of a processor that has 32, so every addition would load its sum and store it again.

This pass finds these additions in a block (`Tile`): rows of left factors, columns of right factors, a sum for each
pair, several steps. tile_loops.py makes a loop of them, over few sums at a time, which stay in registers for all
steps. Sums do not depend on each other, and each one's additions stay in their order: results are the same to the
bit.

Between blocks, a sum has several values: what a block reads, what it makes of that, the phi of the loop round it. They
lie in one place of memory, their home, if never two of them are alive at once. A block's loop works on homes directly,
so nothing is moved at barriers and at the ends of iterations.

Owns which kernels count as such (`tiled`), the tiles of a function's blocks, and homes. Kernels that count get an
unmasked version although they are large (kernel.py), and are compiled by tier 2 early (tiers.py). A block that does not
fit (sums that are factors, sums with different numbers of steps) is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.ptx.model import Body, Instruction, read_by
from farlane.backend.jit.ssa import liveness
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.ssa.cfg import Graph

LEAST_SUMS, LEAST_SIDE = 16, 2  # of a tile: fewer find registers as they are
LEAST_ADDITIONS, LEAST_SHARE = 64, 4  # of a kernel: so many, and one instruction of so many
LEAST_INSTRUCTIONS = 250  # of a kernel: smaller ones may be warp groups (warp_groups.py)
MOST_INSTRUCTIONS = 2000  # two versions of more take too long to compile
_WAITS = {"bar", "barrier"}
_TYPES = {"f32": "float", "f64": "double"}


@dataclass(eq=False)
class Tile:
    """The additions of a block that are done as loops, behind all else in it but a barrier.

    Attributes:
        type: the LLVM type of a lane's sum.
        additions: all of them; the first is where the loops are.
        left, right: the factors of each step, by row and by column.
        before, after: each sum's value at the block's start and end, row by row.
        home: the array that holds the sums, with others' in front of them; None: they are values like others.
    """

    type: str
    additions: list[Instruction]
    left: list[list[Any]]
    right: list[list[Any]]
    before: list[Any]
    after: list[Value]
    home: str | None = None

    @property
    def steps(self) -> int:
        return len(self.left)

    @property
    def rows(self) -> int:
        return len(self.left[0])

    @property
    def columns(self) -> int:
        return len(self.right[0])


@dataclass
class Tiles:
    """All tiles of a function.

    Attributes:
        at: by block.
        homes: where values lie between blocks: an array's name and which of its vectors.
        arrays: the arrays: type and number of vectors, by name.
    """

    at: dict[int, Tile] = field(default_factory=dict)
    homes: dict[Value, tuple[str, int]] = field(default_factory=dict)
    arrays: dict[str, tuple[str, int]] = field(default_factory=dict)


def tiled(body: Body) -> bool:
    """Whether a kernel is one of these: much of it is additions of products, and its threads wait for each other."""
    count = len(body.instructions)
    additions = sum(_adds(item) for item in body.instructions)
    return (
        LEAST_INSTRUCTIONS < count <= MOST_INSTRUCTIONS
        and additions >= max(LEAST_ADDITIONS, count // LEAST_SHARE)
        and any(item.base in _WAITS for item in body.instructions)
    )


def place_of(array: str, number: int) -> str:
    """A pointer to one of an array's vectors."""
    return f"{array}.{number}"


def plan(graph: Graph) -> Tiles:
    """The tiles of a function whose values are classified; their additions become the last of their blocks."""
    tiles = Tiles()
    for index, block in enumerate(graph.blocks):
        additions, copies = _late(block.instructions)
        tile = _tile(additions)
        if tile is None:
            continue
        chosen = {id(item) for item in (*additions, *copies)}
        rest = [item for item in block.instructions if id(item) not in chosen]
        end = [rest.pop()] if rest and rest[-1].base in _WAITS else []
        block.instructions = [*rest, *additions, *copies, *end]
        tiles.at[index] = tile
    if tiles.at:
        _give_homes(graph, tiles)
    return tiles


# Tiles ---------------------------------------------------------------------------------------------------------------
def _adds(item: Instruction) -> bool:
    return item.base == "fma" and item.modifiers in (("rn", "f32"), ("rn", "f64")) and item.guard is None


def _late(instructions: Sequence[Instruction]) -> tuple[list[Instruction], list[Instruction]]:
    """The additions that may come behind all else in a block, since nothing else there reads their sums; and copies that may come behind these."""
    additions: list[Instruction] = []
    copies: list[Instruction] = []
    needed: set[Any] = set()  # by what is neither
    read: set[Any] = set()  # by all but such copies
    for item in reversed(instructions):
        if _adds(item) and item.destinations[0] not in needed:
            additions.append(item)
        elif item.base == "mov" and item.guard is None and not read.intersection(item.destinations):
            copies.append(item)
            continue
        else:
            needed.update(read_by(item))
        read.update(read_by(item))
    return additions[::-1], copies[::-1]


def _tile(additions: list[Instruction]) -> Tile | None:
    """What they are, if they are rows and columns."""
    chains = _chains(additions)
    if chains is None or len(chains) < LEAST_SUMS or len({len(chain) for chain in chains}) > 1:
        return None
    if len({item.modifiers for item in additions}) > 1:
        return None
    rows = list(dict.fromkeys(chain[0].sources[0] for chain in chains))
    columns = list(dict.fromkeys(chain[0].sources[1] for chain in chains))
    if min(len(rows), len(columns)) < LEAST_SIDE or len(rows) * len(columns) != len(chains):
        return None
    by_place = {(chain[0].sources[0], chain[0].sources[1]): chain for chain in chains}
    if len(by_place) != len(chains):
        return None
    grid = [[by_place[row, column] for column in columns] for row in rows]
    left, right = [], []
    for step in range(len(chains[0])):
        left.append([line[0][step].sources[0] for line in grid])
        right.append([chain[step].sources[1] for chain in grid[0]])
        for row, line in enumerate(grid):
            for column, chain in enumerate(line):
                if chain[step].sources[:2] != [left[-1][row], right[-1][column]]:
                    return None
    ordered = [chain for line in grid for chain in line]
    before, after = [chain[0].sources[2] for chain in ordered], [chain[-1].destinations[0] for chain in ordered]
    if not all(isinstance(value, Value) and value.varying for value in after):
        return None
    return Tile(_TYPES[additions[0].modifiers[-1]], additions, left, right, before, after)


def _chains(additions: list[Instruction]) -> list[list[Instruction]] | None:
    """The additions to each sum, one after the other. None where a sum is a factor, or two sums go on from one."""
    chains: list[list[Instruction]] = []
    made: set[Any] = set()
    ends: dict[Any, list[Instruction]] = {}
    for item in additions:
        if any(isinstance(source, Value) and source in made for source in item.sources[:2]):
            return None
        chain = ends.pop(item.sources[2], None)
        if chain is None:
            if item.sources[2] in made:
                return None
            chains.append(chain := [])
        chain.append(item)
        made.add(item.destinations[0])
        ends[item.destinations[0]] = chain
    return chains


# Homes ---------------------------------------------------------------------------------------------------------------
def _give_homes(graph: Graph, tiles: Tiles) -> None:
    """Gives the sums of tiles homes, where none of a tile's is refused one. Tiles that work on the same sums share an array."""
    groups = _Groups(graph, tiles)
    refused = groups.refused(graph, tiles)
    for tile in tiles.at.values():
        places = [groups.of(value) for value in tile.after]
        if not refused.isdisjoint(places):
            continue
        known = [tiles.homes.get(value) for value in tile.after]
        if not any(known):
            name = f"%sums{len(tiles.arrays)}"
            tiles.arrays[name] = (tile.type, len(places))
            for number, place in enumerate(places):
                tiles.homes.update((value, (name, number)) for value in groups.members[place])
            tile.home = name
        elif None not in known:
            _arrange(tile, [home for home in known if home is not None])


def _arrange(tile: Tile, known: list[tuple[str, int]]) -> None:
    """Brings rows and columns into the order in which their sums lie in another tile's array, if they do."""
    columns = tile.columns
    rows_now = sorted(range(tile.rows), key=lambda row: known[row * columns][1])
    columns_now = sorted(range(columns), key=lambda column: known[column][1])
    order = [row * columns + column for row in rows_now for column in columns_now]
    name = known[0][0]
    if [known[place] for place in order] != [(name, number) for number in range(len(order))]:
        return
    tile.left = [[step[row] for row in rows_now] for step in tile.left]
    tile.right = [[step[column] for column in columns_now] for step in tile.right]
    tile.before, tile.after = [tile.before[place] for place in order], [tile.after[place] for place in order]
    tile.home = name


class _Groups:
    """Values that are to share a home: what tiles make of each sum, and the phis of that."""

    def __init__(self, graph: Graph, tiles: Tiles) -> None:
        self._of: dict[Value, int] = {}
        self.members: dict[int, list[Value]] = {}
        for tile in tiles.at.values():
            for value in tile.after:
                self._add(value)
        phis = [phi for block in graph.blocks for phi in block.phis]
        found = True
        while found:
            found = False
            for phi in phis:
                if phi.value not in self._of and any(value in self._of for value in phi.operands.values()):
                    self._add(phi.value)
                    found = True
        for phi in phis:
            self._join(phi.value, *phi.operands.values())
        for tile in tiles.at.values():
            for before, after in zip(tile.before, tile.after, strict=True):
                self._join(before, after)

    def of(self, value: Value) -> int:
        return self._of[value]

    def _add(self, value: Value) -> None:
        self._of[value] = value.number
        self.members[value.number] = [value]

    def _join(self, *values: Any) -> None:
        groups = list(dict.fromkeys(self._of[value] for value in values if value in self._of))
        for other in groups[1:]:
            for value in self.members[other]:
                self._of[value] = groups[0]
            self.members[groups[0]] += self.members.pop(other)

    def refused(self, graph: Graph, tiles: Tiles) -> set[int]:
        """Groups of which two values may be alive at once, or that lanes do not keep alike; and the others of a tile with such a group."""
        live = liveness.compute(graph, lambda value: value in self._of)
        refused = {
            group
            for group, values in self.members.items()
            if any(value.exported or not value.varying or value.type != values[0].type for value in values)
        }
        for values in (*live[0], *live[1]):
            refused |= _repeated(self._of[value] for value in values)
        for index, tile in tiles.at.items():
            refused |= _repeated(self._of[value] for value in tile.after)
            refused |= {self._of[value] for value in tile.before if value in self._of and value in live[1][index]}
        spread = True
        while spread:
            before = len(refused)
            for tile in tiles.at.values():
                places = {self._of[value] for value in tile.after}
                if refused & places:
                    refused |= places
            spread = len(refused) > before
        return refused


def _repeated(items: Iterable[int]) -> set[int]:
    seen: set[int] = set()
    twice: set[int] = set()
    for item in items:
        (twice if item in seen else seen).add(item)
    return twice
