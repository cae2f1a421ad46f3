"""Lays out a lineage drawing: boxes in layers from left to right, and lines that run around the boxes.

After Sugiyama, Tagawa and Toda: layers by the longest path, points on lines that pass layers, and sweeps by medians
against crossings. Each layer is then placed as near to the mean of its neighbours as possible without overlap (pool
adjacent violators). The same graph in the same order always has the same layout. Cost: 0.2 s for 300 boxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from waterclock.ui.graph_layers import LayeredGraph, crossings, order_layers

_PASSES = 12
_STRAIGHTNESS = 8.0  # the weight of a line between two points in layers, relative to a line from or to a box
_PORT = 7.0  # the distance between lines where they enter a box


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of boxes and their distances in pixels: `across` between layers, `below` between boxes of a layer."""

    width: float = 176
    height: float = 54
    across: float = 52
    below: float = 14
    line: float = 9
    margin: float = 6


@dataclass(frozen=True, slots=True)
class Box:
    """The position of one node: its layer, its upper left corner, its width and height."""

    layer: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line from a box to one that reads it, as points: curved between layers, straight through a layer."""

    source: str
    target: str
    points: tuple[tuple[float, float], ...]

    @property
    def path(self) -> str:
        """The line as the `d` of an SVG path."""
        (x, y), *rest = self.points
        parts = [f"M{x:g} {y:g}"]
        for index, (to_x, to_y) in enumerate(rest):
            middle = (x + to_x) / 2
            is_bent = index % 2 == 0 and y != to_y
            parts.append(
                f"C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}" if is_bent else f"L{to_x:g} {to_y:g}"
            )
            x, y = to_x, to_y
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of all boxes and lines, and the size of the drawing. `crossings` counts the crossing lines."""

    boxes: Mapping[str, Box]
    lines: tuple[Line, ...]
    width: float
    height: float
    crossings: int


def lay_out(
    nodes: Sequence[str],
    edges: Iterable[tuple[str, str]],
    sizes: Sizes = Sizes(),
    heights: Mapping[str, float] | None = None,
) -> Layout:
    """Lay out nodes and edges from left to right. One edge of each cycle points left.

    `heights` replaces the height in `sizes` for some nodes.
    """
    graph = LayeredGraph.build(nodes, edges)
    for name, height in (heights or {}).items():
        graph.heights[graph.index[name]] = height
    rows = order_layers(graph)
    middles = _place_vertices(graph, rows, sizes)
    return _build_layout(graph, rows, middles, sizes)


def _place_vertices(graph: LayeredGraph, rows: Sequence[Sequence[int]], sizes: Sizes) -> list[float]:
    """Return the vertical middle of each vertex: near its neighbours, without overlap."""
    distances = [list(_minimum_distances(graph, row, sizes)) for row in rows]
    middles = [0.0] * graph.size
    for row, gaps in zip(rows, distances, strict=True):
        at = 0.0
        for vertex, gap in zip(row, gaps, strict=True):
            at += gap
            middles[vertex] = at
    sides = (graph.ups,), (graph.downs,)
    for number in range(_PASSES + 1):
        is_last = number == _PASSES
        neighbours = (graph.ups, graph.downs) if is_last else sides[number % 2]
        steps = range(len(rows)) if number % 2 == 0 else reversed(range(len(rows)))
        for layer in steps:
            row = rows[layer]
            wanted = [_find_preferred_position(graph, vertex, neighbours, middles) for vertex in row]
            for vertex, middle in zip(row, spread_positions(wanted, distances[layer]), strict=True):
                middles[vertex] = middle
    return middles


def _minimum_distances(graph: LayeredGraph, row: Sequence[int], sizes: Sizes) -> Iterator[float]:
    """Yield the minimum distance of each vertex of a layer to the one above it, from middle to middle."""
    above: int | None = None
    for vertex in row:
        if above is None:
            yield 0.0
        else:
            ends = (_height(graph, each, sizes) / 2 for each in (above, vertex))
            are_boxes = graph.is_node(above) and graph.is_node(vertex)
            yield sum(ends) + (sizes.below if are_boxes else sizes.line)
        above = vertex


def _height(graph: LayeredGraph, vertex: int, sizes: Sizes) -> float:
    return graph.heights.get(vertex, sizes.height) if graph.is_node(vertex) else 0.0


def _find_preferred_position(
    graph: LayeredGraph, vertex: int, neighbours: Sequence[Sequence[Sequence[int]]], middles: Sequence[float]
) -> tuple[float, float]:
    """Return the preferred position of a vertex, the weighted mean of its neighbours, and the sum of the weights."""
    total = weight = 0.0
    for side in neighbours:
        for other in side[vertex]:
            share = _STRAIGHTNESS if not graph.is_node(vertex) and not graph.is_node(other) else 1.0
            total += share * middles[other]
            weight += share
    return (total / weight, weight) if weight else (middles[vertex], 0.1)


def spread_positions(wanted: Sequence[tuple[float, float]], distances: Sequence[float]) -> list[float]:
    """Return the positions nearest to the preferred ones, by the sum of squares, that keep the order and the distances.

    `wanted` has the position and weight of each, `distances` the minimum distance of each to the one before it.
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight and number of the positions in each block
    offset, offsets = 0.0, []
    for (place, weight), gap in zip(wanted, distances, strict=True):
        offset += gap
        offsets.append(offset)
        mean, count = place - offset, 1
        while blocks and blocks[-1][0] > mean:
            before, heavy, many = blocks.pop()
            mean = (before * heavy + mean * weight) / (heavy + weight)
            weight, count = heavy + weight, count + many  # noqa: PLW2901 - of the block
        blocks.append((mean, weight, count))
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _build_layout(graph: LayeredGraph, rows: Sequence[Sequence[int]], middles: Sequence[float], sizes: Sizes) -> Layout:
    """Return boxes and lines at their final positions, with the drawing's corner at the origin."""
    tops = [middles[vertex] - _height(graph, vertex, sizes) / 2 for vertex in range(graph.size)]
    up = sizes.margin - min(tops, default=0.0)
    boxes = {
        name: Box(
            graph.layers[number],
            _layer_left(graph.layers[number], sizes),
            round(tops[number] + up),
            sizes.width,
            graph.heights.get(number, sizes.height),
        )
        for number, name in enumerate(graph.names)
    }
    lines = tuple(_build_lines(graph, boxes, [round(middle + up, 1) for middle in middles], sizes))
    ends = [each.y + each.height for each in boxes.values()]
    ends += [y for line in lines for _, y in line.points]
    width = _layer_left(len(rows) - 1, sizes) + sizes.width if rows else 0.0
    return Layout(boxes, lines, width + sizes.margin, max(ends, default=0.0) + sizes.margin, crossings(graph, rows))


def _layer_left(layer: int, sizes: Sizes) -> float:
    return sizes.margin + layer * (sizes.width + sizes.across)


def _build_lines(
    graph: LayeredGraph, boxes: Mapping[str, Box], middles: Sequence[float], sizes: Sizes
) -> Iterator[Line]:
    into: dict[int, list[tuple[float, int]]] = {}
    for source, target in graph.edges:
        crossed = graph.ways[source, target]
        into.setdefault(target, []).append((middles[crossed[-1] if crossed else source], source))
    ports = {(source, target): shift for target, each in into.items() for source, shift in _entry_offsets(each)}
    for source, target in graph.edges:
        start, end = boxes[graph.names[source]], boxes[graph.names[target]]
        points = [(start.x + start.width, start.y + start.height / 2)]
        for point in graph.ways[source, target]:
            left = _layer_left(graph.layers[point], sizes)
            points += [(left, middles[point]), (left + sizes.width, middles[point])]
        room = end.height / 2 - 6
        shift = max(-room, min(room, ports[source, target]))
        points.append((end.x, end.y + end.height / 2 + shift))
        if (source, target) in graph.original_edges:
            yield Line(graph.names[source], graph.names[target], tuple(points))
        if (target, source) in graph.original_edges:
            yield Line(graph.names[target], graph.names[source], tuple(reversed(points)))


def _entry_offsets(each: Sequence[tuple[float, int]]) -> Iterator[tuple[int, float]]:
    """Yield the vertical offset at which each line enters a box, in the order of the lines' sources."""
    for number, (_, source) in enumerate(sorted(each)):
        yield source, (number - (len(each) - 1) / 2) * _PORT
