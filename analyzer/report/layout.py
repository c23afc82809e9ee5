"""Where the blocks and edges of a graph are drawn: layers from top to bottom, few crossings, straight chains.

The layered method: back edges are left out, every block gets the layer of its longest path from the entry, edges over
several layers pass through points on the layers between, the order within a layer follows the neighbours'
(barycentres), and positions are pulled towards the neighbours as far as the order allows. Back edges are led up on the
left.
Source: Sugiyama, Tagawa, Toda, Methods for Visual Understanding of Hierarchical System Structures, 1981.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

GAP_ACROSS, GAP_DOWN, LANE = 26.0, 44.0, 12.0
POINT = 10.0  # the width kept for an edge that passes a layer
SWEEPS = 8

Size = tuple[float, float]
Edge = tuple[int, int]


@dataclass(frozen=True)
class Drawing:
    """Positions.

    Attributes:
        boxes: node -> left, top, width, height.
        paths: edge -> the points it passes through.
    """

    width: float
    height: float
    boxes: Mapping[int, tuple[float, float, float, float]]
    paths: Mapping[Edge, tuple[tuple[float, float], ...]]


class _Item:
    """A node or a point of an edge, on its layer."""

    def __init__(self, layer: int, width: float) -> None:
        self.layer, self.width = layer, width
        self.above: list[_Item] = []
        self.below: list[_Item] = []
        self.rank = 0.0
        self.x = 0.0  # the middle


def draw(order: Sequence[int], sizes: Mapping[int, Size], edges: Iterable[Edge], back: frozenset[Edge]) -> Drawing:
    """Lays out a graph.

    Args:
        order: the nodes in reverse postorder; the first is the entry.
        sizes: width and height of each node.
        edges: from and to.
        back: edges that lead upwards.
    """
    position = {node: index for index, node in enumerate(order)}
    known = sorted({edge for edge in edges if edge[0] in position and edge[1] in position})
    # In reverse postorder every edge that does not lead forwards closes a cycle.
    upward = {edge for edge in known if edge in back or position[edge[1]] <= position[edge[0]]}
    forward = [edge for edge in known if edge not in upward]
    layer = _layers(order, forward)
    items = {node: _Item(layer[node], sizes[node][0]) for node in order}
    chains = {edge: _chain(items[edge[0]], items[edge[1]]) for edge in forward}
    layers: list[list[_Item]] = [[] for _ in range(max(layer.values(), default=0) + 1)]
    for item in [items[node] for node in order] + [point for chain in chains.values() for point in chain]:
        layers[item.layer].append(item)
    _order(layers)
    _place(layers)
    left = min((item.x - item.width / 2 for row in layers for item in row), default=0.0)
    lanes = len(upward) * LANE + GAP_ACROSS
    tops, heights = _rows(layers, items, sizes)
    boxes = {}
    for node, item in items.items():
        width, height = sizes[node]
        boxes[node] = (item.x - width / 2 - left + lanes, tops[item.layer], width, height)
    paths: dict[Edge, tuple[tuple[float, float], ...]] = {}
    leaving = _ports(forward, boxes)
    for edge, chain in chains.items():
        source, target = boxes[edge[0]], boxes[edge[1]]
        points = [(leaving[edge], source[1] + source[3])]
        for point in chain:
            x = point.x - left + lanes
            points += [(x, tops[point.layer]), (x, tops[point.layer] + heights[point.layer])]
        points.append((target[0] + target[2] / 2, target[1]))
        paths[edge] = tuple(points)
    for index, edge in enumerate(sorted(upward, key=lambda edge: layer[edge[0]] - layer[edge[1]])):
        paths[edge] = _upward(boxes[edge[0]], boxes[edge[1]], lanes - GAP_ACROSS / 2 - index * LANE)
    rights = [box[0] + box[2] for box in boxes.values()] + [x for points in paths.values() for x, _ in points]
    width = max(rights, default=0.0) + GAP_ACROSS
    return Drawing(width, tops[-1] + heights[-1] + GAP_DOWN if tops else 0.0, boxes, paths)


def _layers(order: Sequence[int], forward: Sequence[Edge]) -> dict[int, int]:
    incoming: dict[int, list[int]] = {node: [] for node in order}
    for source, target in forward:
        incoming[target].append(source)
    layer: dict[int, int] = {}
    for node in order:
        layer[node] = max((layer[source] + 1 for source in incoming[node]), default=0)
    return layer


def _chain(source: _Item, target: _Item) -> list[_Item]:
    points = [_Item(layer, POINT) for layer in range(source.layer + 1, target.layer)]
    for upper, lower in zip([source, *points], [*points, target], strict=True):
        upper.below.append(lower)
        lower.above.append(upper)
    return points


def _order(layers: list[list[_Item]]) -> None:
    for row in layers:
        for index, item in enumerate(row):
            item.rank = float(index)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in layers if down else reversed(layers):
            weights = []
            for item in row:
                near = item.above if down else item.below
                weights.append(sum(other.rank for other in near) / len(near) if near else item.rank)
            order = sorted(range(len(row)), key=lambda index: (weights[index], row[index].rank))
            row[:] = [row[index] for index in order]
            for index, item in enumerate(row):
                item.rank = float(index)


def _place(layers: list[list[_Item]]) -> None:
    for row in layers:
        right = 0.0
        for item in row:
            item.x = right + item.width / 2
            right += item.width + GAP_ACROSS
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in layers if down else reversed(layers):
            wanted = []
            for item in row:
                near = item.above if down else item.below
                wanted.append(sum(other.x for other in near) / len(near) if near else item.x)
            _spread(row, wanted)


def _spread(row: list[_Item], wanted: Sequence[float]) -> None:
    """Moves the items to where they are wanted, keeping their order and distance: groups that touch move as one."""
    # Each group: sum of what its items want of its first item, number of items, items.
    groups: list[tuple[float, int, list[_Item]]] = []
    offset = 0.0
    offsets: dict[int, float] = {}
    for index, item in enumerate(row):
        offset += item.width / 2 if index else 0.0
        offsets[id(item)] = offset
        total, count, members = wanted[index] - offset, 1, [item]
        while groups and groups[-1][0] / groups[-1][1] >= total / count:
            before = groups.pop()
            total, count, members = before[0] + total, before[1] + count, before[2] + members
        groups.append((total, count, members))
        offset += item.width / 2 + GAP_ACROSS
    for total, count, members in groups:
        for item in members:
            item.x = total / count + offsets[id(item)]


def _rows(
    layers: Sequence[Sequence[_Item]], items: Mapping[int, _Item], sizes: Mapping[int, Size]
) -> tuple[list[float], list[float]]:
    heights = [0.0] * len(layers)
    for node, item in items.items():
        heights[item.layer] = max(heights[item.layer], sizes[node][1])
    tops, top = [], GAP_DOWN / 2
    for height in heights:
        tops.append(top)
        top += height + GAP_DOWN
    return tops, heights


def _ports(edges: Iterable[Edge], boxes: Mapping[int, tuple[float, float, float, float]]) -> dict[Edge, float]:
    """Where each edge leaves its block: side by side, in the order of where they go."""
    leaving: dict[int, list[Edge]] = {}
    for edge in edges:
        leaving.setdefault(edge[0], []).append(edge)
    found = {}
    for source, all_ in leaving.items():
        left, _, width, _ = boxes[source]
        for index, edge in enumerate(sorted(all_, key=lambda edge: boxes[edge[1]][0])):
            found[edge] = left + width * (index + 1) / (len(all_) + 1)
    return found


def _upward(
    source: tuple[float, float, float, float], target: tuple[float, float, float, float], lane: float
) -> tuple[tuple[float, float], ...]:
    bottom, top = source[1] + source[3], target[1]
    start, end = source[0] + source[2] * 0.2, target[0] + target[2] * 0.2
    turn, back = bottom + GAP_DOWN * 0.3, top - GAP_DOWN * 0.3
    return ((start, bottom), (start, turn), (lane, turn), (lane, back), (end, back), (end, top))
