from __future__ import annotations

import random
import time
from itertools import combinations, pairwise, permutations, product
from math import factorial, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.ui.graph_layers import LayeredGraph, crossings
from waterclock.ui.layout import Box, Layout, Sizes, lay_out, spread_positions

Graph = tuple[list[str], list[tuple[str, str]]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Draw an acyclic graph with its nodes in any order."""
    count = draw(st.integers(0, 14))
    pairs = list(combinations(range(count), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=30, unique=True)) if pairs else []
    names = draw(st.permutations([f"t{number}" for number in range(count)]))
    return names, [(f"t{source}", f"t{target}") for source, target in chosen]


def overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


@given(graphs())
def test_every_edge_points_right_and_no_two_boxes_overlap(graph: Graph) -> None:
    nodes, edges = graph
    laid = lay_out(nodes, edges)
    assert list(laid.boxes) == nodes
    assert {(line.source, line.target) for line in laid.lines} == set(edges)
    for line in laid.lines:
        start, end = laid.boxes[line.source], laid.boxes[line.target]
        assert start.x + start.width < end.x
        assert line.points[0][0] == start.x + start.width
        assert line.points[-1][0] == end.x
        assert [x for x, _ in line.points] == sorted(x for x, _ in line.points)
    assert not any(overlap(one, other) for one, other in combinations(laid.boxes.values(), 2))
    for box in laid.boxes.values():
        assert 0 <= box.x <= box.x + box.width <= laid.width
        assert 0 <= box.y <= box.y + box.height <= laid.height


@given(graphs())
def test_the_same_graph_is_always_drawn_the_same(graph: Graph) -> None:
    assert lay_out(*graph) == lay_out(*graph)


@given(graphs())
def test_no_line_runs_through_a_box(graph: Graph) -> None:
    laid = lay_out(*graph)
    for line in laid.lines:
        for (left, y), (right, _) in zip(line.points[1:-1:2], line.points[2:-1:2], strict=True):
            for box in laid.boxes.values():
                assert not (box.x < right and left < box.x + box.width and box.y < y < box.y + box.height)


@given(st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefg")), max_size=20, unique=True))
def test_a_graph_with_circles_is_drawn_with_all_its_edges(edges: list[tuple[str, str]]) -> None:
    laid = lay_out(list("abcdefg"), edges)
    assert {(line.source, line.target) for line in laid.lines} == {edge for edge in edges if edge[0] != edge[1]}
    assert not any(overlap(one, other) for one, other in combinations(laid.boxes.values(), 2))


@given(graphs(), st.data())
def test_boxes_of_other_heights_do_not_overlap_either(graph: Graph, data: st.DataObject) -> None:
    heights = {name: data.draw(st.sampled_from([20.0, 54.0, 90.0])) for name in graph[0]}
    laid = lay_out(*graph, heights=heights)
    assert {name: box.height for name, box in laid.boxes.items()} == heights
    assert not any(overlap(one, other) for one, other in combinations(laid.boxes.values(), 2))


def test_crossings_are_few_beside_the_fewest_that_there_can_be() -> None:
    found = fewest = 0
    for seed in range(120):
        nodes, edges = small(seed)
        graph = LayeredGraph.build(nodes, edges)
        rows: list[list[int]] = [[] for _ in range(max(graph.layers) + 1)]
        for vertex, layer in enumerate(graph.layers):
            rows[layer].append(vertex)
        if prod(factorial(len(row)) for row in rows) > 3000:
            continue
        fewest += min(crossings(graph, orders) for orders in product(*(list(permutations(row)) for row in rows)))
        found += lay_out(nodes, edges).crossings
    assert fewest > 50  # dense on purpose: a project's lineage has hardly any
    assert fewest <= found <= 1.15 * fewest


def small(seed: int) -> Graph:
    chance = random.Random(seed)
    layers = [chance.randrange(3) for _ in range(chance.randrange(5, 9))]
    pairs = [(a, b) for a, low in enumerate(layers) for b, high in enumerate(layers) if low < high]
    edges = [(f"t{a}", f"t{b}") for a, b in pairs if chance.random() < 0.6]
    return [f"t{number}" for number in range(len(layers))], edges


def test_sources_are_placed_next_to_their_nearest_reader() -> None:
    laid = lay_out(["a", "b", "c", "late"], [("a", "b"), ("b", "c"), ("late", "c")])
    assert {name: box.layer for name, box in laid.boxes.items()} == {"a": 0, "b": 1, "c": 2, "late": 1}


def test_a_long_edge_goes_around_the_boxes_between() -> None:
    laid = lay_out(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")])
    [line] = [line for line in laid.lines if (line.source, line.target) == ("a", "c")]
    box = laid.boxes["b"]
    assert len(line.points) == 4
    assert not box.y <= line.points[1][1] <= box.y + box.height
    assert line.path.count("C") == 2
    assert line.path.count("L") == 1


def test_a_chain_is_a_straight_line() -> None:
    laid = lay_out(list("abcd"), [("a", "b"), ("b", "c"), ("c", "d")])
    assert len({box.y for box in laid.boxes.values()}) == 1
    assert all("C" not in line.path for line in laid.lines)


def test_of_nothing_there_is_an_empty_drawing() -> None:
    assert lay_out([], []) == Layout({}, (), Sizes().margin, Sizes().margin, 0)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(-500, 500), st.floats(0.1, 9)), min_size=1, max_size=12), st.floats(0, 40))
def test_places_keep_their_distance_and_those_that_fit_stay(wanted: list[tuple[float, float]], gap: float) -> None:
    apart = [0.0, *[gap] * (len(wanted) - 1)]
    found = spread_positions(wanted, apart)
    assert all(high - low >= gap - 1e-6 for low, high in pairwise(found))
    if all(b - a >= gap for (a, _), (b, _) in pairwise(wanted)):
        assert found == pytest.approx([place for place, _ in wanted])


@pytest.mark.bench
def test_300_boxes_are_laid_out_at_once() -> None:
    chance = random.Random(1)
    layers = sorted(chance.randrange(8) for _ in range(300))
    edges: set[tuple[str, str]] = set()
    while len(edges) < 476:
        a, b = chance.randrange(300), chance.randrange(300)
        if layers[a] < layers[b] and (layers[b] - layers[a] == 1 or chance.random() < 0.15):
            edges.add((f"t{a}", f"t{b}"))
    began = time.process_time()
    lay_out([f"t{number}" for number in range(300)], sorted(edges))
    assert time.process_time() - began < 1.5  # 0.16 s on an idle machine
