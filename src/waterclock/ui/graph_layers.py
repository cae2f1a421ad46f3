"""Assigns the nodes of a graph to layers and orders each layer, so that few lines between two layers cross.

A node's layer is the length of the longest path to it. A line that crosses a layer has a point in it. Sweeps that sort
by medians alternate with swaps of neighbours; the best order found is used.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_SWEEPS = 24
_SWAPS = 8  # passes over all adjacent pairs of a layer to find swaps with fewer crossings
_SWAP_EACH = 12  # in a larger graph, swaps follow each 12th sweep
_SMALL = 150  # with at most this many boxes and points swaps are fast: they follow each sweep


@dataclass(slots=True)
class LayeredGraph:
    """A graph whose vertices are numbers: first the nodes, then the points at which lines cross a layer.

    All `edges` point right. `original_edges` has the edges as they were, of which one in each cycle points left. `ways`
    maps each edge to its points. `ups` and `downs` have the neighbours of each vertex in the adjacent layers.
    """

    names: Sequence[str]
    index: dict[str, int]
    original_edges: set[tuple[int, int]]
    edges: list[tuple[int, int]]
    layers: list[int]
    ups: list[list[int]] = field(default_factory=list)
    downs: list[list[int]] = field(default_factory=list)
    ways: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    heights: dict[int, float] = field(default_factory=dict)

    @classmethod
    def build(cls, nodes: Sequence[str], edges: Iterable[tuple[str, str]]) -> LayeredGraph:
        """Build the layered graph of nodes and edges. One edge of each cycle is reversed."""
        names = list(dict.fromkeys(nodes))
        index = {name: number for number, name in enumerate(names)}
        pairs = list(dict.fromkeys((index[a], index[b]) for a, b in edges if a in index and b in index and a != b))
        order = _upstream_first(len(names), pairs)
        rank = {node: number for number, node in enumerate(order)}
        forward = list(dict.fromkeys((a, b) if rank[a] < rank[b] else (b, a) for a, b in pairs))
        made = cls(names, index, set(pairs), forward, _assign_layers(order, forward))
        made._connect_layers()
        return made

    @property
    def size(self) -> int:
        """The number of nodes and points."""
        return len(self.layers)

    def is_node(self, vertex: int) -> bool:
        """Return whether a vertex is a node, not a point at which a line passes a layer."""
        return vertex < len(self.names)

    def _connect_layers(self) -> None:
        """Connect adjacent layers. Lines from one source share the points at which they pass a layer."""
        points: dict[tuple[int, int], int] = {}
        segments: dict[tuple[int, int], None] = {}
        for source, target in self.edges:
            crossed, last = [], source
            for layer in range(self.layers[source] + 1, self.layers[target]):
                if (source, layer) not in points:
                    points[source, layer] = len(self.layers)
                    self.layers.append(layer)
                point = points[source, layer]
                segments[last, point] = None
                crossed.append(point)
                last = point
            segments[last, target] = None
            self.ways[source, target] = tuple(crossed)
        self.ups = [[] for _ in self.layers]
        self.downs = [[] for _ in self.layers]
        for source, target in segments:
            self.downs[source].append(target)
            self.ups[target].append(source)


def _upstream_first(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Sort nodes so that edges point forward. In a cycle the first node given comes first."""
    waits = [0] * count
    downs: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        waits[target] += 1
        downs[source].append(target)
    order: list[int] = []
    is_done = [False] * count
    ready = [node for node in range(count) if not waits[node]]
    first = 0
    while len(order) < count:
        if not ready:
            while is_done[first]:
                first += 1
            ready.append(first)
        node = ready.pop(0)
        if is_done[node]:
            continue
        is_done[node] = True
        order.append(node)
        for target in downs[node]:
            waits[target] -= 1
            if not waits[target] and not is_done[target]:
                insort(ready, target)
    return order


def _assign_layers(order: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return each node's layer: after all its inputs. A node without inputs is next to its nearest reader."""
    ups: list[list[int]] = [[] for _ in order]
    downs: list[list[int]] = [[] for _ in order]
    for source, target in edges:
        ups[target].append(source)
        downs[source].append(target)
    layers = [0] * len(order)
    for node in order:
        layers[node] = max((layers[each] + 1 for each in ups[node]), default=0)
    for node in order:
        if not ups[node] and downs[node]:
            layers[node] = min(layers[each] for each in downs[node]) - 1
    return layers


def order_layers(graph: LayeredGraph) -> list[list[int]]:
    """Return the layers, each from top to bottom, with few crossings: the best order found by sweeps."""
    first = _first_order(graph)
    found = [_reduce_crossings(graph, [list(row) for row in first], is_down=True)]
    if found[0][0]:
        found.append(_reduce_crossings(graph, [list(reversed(row)) for row in first], is_down=False))
    return min(found, key=lambda each: each[0])[1]


def _reduce_crossings(graph: LayeredGraph, rows: list[list[int]], *, is_down: bool) -> tuple[int, list[list[int]]]:
    """Sweep back and forth. Return the fewest crossings found, and the layers with them."""
    best, least = [list(row) for row in rows], crossings(graph, rows)
    swaps_each = 1 if graph.size <= _SMALL else _SWAP_EACH
    for sweep in range(_SWEEPS):
        if not least:
            break
        _sweep(graph, rows, is_down=is_down is (sweep % 2 == 0))
        if (sweep + 1) % swaps_each == 0:
            _swap_neighbours(graph, rows)
        count = crossings(graph, rows)
        if count < least:
            best, least = [list(row) for row in rows], count
    return least, best


def _first_order(graph: LayeredGraph) -> list[list[int]]:
    """Return layers that keep connected nodes together, in the order of a walk from the first node."""
    rows: list[list[int]] = [[] for _ in range(max(graph.layers, default=-1) + 1)]
    is_seen = [False] * graph.size
    for root in range(graph.size):
        to_do = [root]
        while to_do:
            vertex = to_do.pop()
            if is_seen[vertex]:
                continue
            is_seen[vertex] = True
            rows[graph.layers[vertex]].append(vertex)
            to_do += reversed(graph.downs[vertex])
            to_do += reversed(graph.ups[vertex])
    return rows


def _sweep(graph: LayeredGraph, rows: list[list[int]], *, is_down: bool) -> None:
    """Sort each layer by the median position of each vertex's neighbours in the previous layer.

    Vertices without such neighbours keep their positions.
    """
    place = _positions(graph, rows)
    neighbours = graph.ups if is_down else graph.downs
    for row in rows if is_down else reversed(rows):
        keys: dict[int, tuple[float, float]] = {}
        for vertex in row:
            found = sorted(place[each] for each in neighbours[vertex])
            if found:
                half = len(found) // 2
                median = found[half] if len(found) % 2 else (found[half - 1] + found[half]) / 2
                keys[vertex] = median, sum(found) / len(found)
        moved = iter(sorted((vertex for vertex in row if vertex in keys), key=keys.__getitem__))
        row[:] = [next(moved) if vertex in keys else vertex for vertex in row]
        for number, vertex in enumerate(row):
            place[vertex] = number


def _positions(graph: LayeredGraph, rows: Sequence[Sequence[int]]) -> list[int]:
    place = [0] * graph.size
    for row in rows:
        for number, vertex in enumerate(row):
            place[vertex] = number
    return place


def _swap_neighbours(graph: LayeredGraph, rows: list[list[int]]) -> None:
    """Swap adjacent vertices of a layer if that reduces the crossings, until no swap does."""
    place = _positions(graph, rows)
    for _ in range(_SWAPS):
        has_moved = False
        near = [
            [sorted(place[each] for each in side[vertex]) for side in (graph.ups, graph.downs)]
            for vertex in range(graph.size)
        ]
        for row in rows:
            for number in range(len(row) - 1):
                upper, lower = row[number], row[number + 1]
                now = sum(_count_pair_crossings(a, b) for a, b in zip(near[upper], near[lower], strict=True))
                if (
                    now
                    and sum(_count_pair_crossings(b, a) for a, b in zip(near[upper], near[lower], strict=True)) < now
                ):
                    row[number], row[number + 1] = lower, upper
                    place[upper], place[lower] = number + 1, number
                    has_moved = True
            for vertex in row:
                for other in graph.ups[vertex]:
                    near[other][1] = sorted(place[each] for each in graph.downs[other])
                for other in graph.downs[vertex]:
                    near[other][0] = sorted(place[each] for each in graph.ups[other])
        if not has_moved:
            return


def _count_pair_crossings(upper: Sequence[int], lower: Sequence[int]) -> int:
    """Count the crossings of the lines of two adjacent vertices, from the sorted positions of the lines' other ends."""
    return sum(len(upper) - bisect_right(upper, end) for end in lower) if upper else 0


def crossings(graph: LayeredGraph, rows: Sequence[Sequence[int]]) -> int:
    """Count the crossings of lines between adjacent layers."""
    place = _positions(graph, rows)
    total = 0
    for row in rows:
        seen: list[int] = []
        for vertex in row:
            ends = sorted(place[each] for each in graph.downs[vertex])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total
