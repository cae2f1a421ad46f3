from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.model.flows import collect, flow, history, merge_transform, previous, publish, replace_transform, transform
from waterclock.flow.declarations import Flow, Read
from waterclock.flow.enums import Batching, Mode, ReadKind
from waterclock.planner.dependency_graph import Node, graph_of

A = collect("a")


def node(name: str, *tables: object) -> Node:
    return graph_of(flow(*tables)).nodes[name]  # type: ignore[arg-type]  # tables


def test_readers_are_those_who_read() -> None:
    assert node("a", A, transform("b", ["a", history("a")])).readers == (("b", Read("a")), ("b", history("a")))


def test_tables_that_read_each_other_are_a_circle() -> None:
    found = graph_of(flow(A, replace_transform("x", ["a", previous("y")]), replace_transform("y", ["x"]))).nodes
    assert found["x"].cycle == found["y"].cycle == {"x", "y"}
    assert found["a"].cycle == frozenset()


def test_a_table_between_two_cycles_is_on_neither() -> None:
    found = graph_of(
        flow(
            A,
            transform("x", ["a", previous("y")]),
            transform("y", ["x"]),
            transform("between", ["y"]),
            transform("v", ["between", previous("w")]),
            transform("w", ["v"]),
        )
    ).nodes
    assert found["between"].cycle == frozenset()
    assert found["x"].cycle == {"x", "y"}
    assert found["v"].cycle == {"v", "w"}


def test_which_tables_go_in_label_order() -> None:
    arrived = collect("c", batching=Batching.ARRIVAL_TIME)
    merged = merge_transform("m", ["a"])
    transforms = (merged, transform("own", ["a", previous("own")]), replace_transform("r", ["a"]))
    appended = collect("ap", is_partitioned=False)
    publishes = (
        publish("of_a", A),
        publish("of_m", merged),
        publish("of_ap", appended),
        publish("of_ap_m", appended, mode=Mode.MERGE),
    )
    found = graph_of(
        flow(A, appended, arrived, *transforms, *publishes, replace(collect("s"), is_sequential=True))
    ).nodes
    assert {name for name, it in found.items() if it.is_ordered} == {"c", "m", "own", "of_a", "of_ap", "s"}
    assert {name for name, it in found.items() if it.is_single} == {
        "ap",
        "c",
        "m",
        "own",
        "of_a",
        "of_ap",
        "of_ap_m",
        "of_m",
        "s",
        "r",
    }
    assert {name for name, it in found.items() if it.is_newest_only} == {"of_m", "of_ap_m"}
    assert {name for name, it in found.items() if it.is_made_if_needed} == {"r"}
    assert {name for name, it in found.items() if it.groups_in_order} == {"c"}


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.booleans()), max_size=16))
def test_order_and_circles_are_those_of_brute_force(arrows: list[tuple[int, int, bool]]) -> None:
    """Any graph whose cycles all contain a PREVIOUS: edges to higher numbers are plain, all others PREVIOUS."""
    reads: dict[int, list[Read]] = {number: [] for number in range(8)}
    for reader, above, is_previous in arrows:
        kind = ReadKind.PREVIOUS if is_previous or above >= reader else ReadKind.PLAIN
        reads[reader].append(Read(f"t{above}", kind))
    tables: Flow = flow(*(transform(f"t{number}", found) for number, found in reads.items()))
    nodes = graph_of(tables).nodes
    reached = {name: _reached(tables, name) for name in tables.tables}
    for name, found in nodes.items():
        others = {other for other in reached[name] if name in reached[other]} - {name}
        assert found.cycle - {name} == others
        for read in found.table.reads:
            is_upstream = read.table != name and (read.kind is not ReadKind.PREVIOUS or read.table not in others)
            assert not is_upstream or nodes[read.table].rank < found.rank


def _reached(tables: Flow, name: str) -> set[str]:
    found: set[str] = set()
    to_do = [name]
    while to_do:
        for read in tables.tables[to_do.pop()].reads:
            if read.table not in found:
                found.add(read.table)
                to_do.append(read.table)
    return found
