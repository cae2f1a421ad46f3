from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.flow.declarations import Flow, Place, Read, Table
from waterclock.flow.enums import Kind, Mode, ReadKind, TableType
from waterclock.flow.graph import circles_of, components_of, cycle_of, order_of, readers_of
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import Period, TimeUnit

DAY = Cadence(Period(TimeUnit.DAY))


def table(name: str, *reads: str | Read) -> Table:
    return Table(
        name=name,
        kind=Kind.TRANSFORM,
        type=TableType.REGULAR,
        mode=Mode.REPLACE,
        cadence=DAY,
        place=Place("a.dpl", 1, 1),
        reads=tuple(Read(read) if isinstance(read, str) else read for read in reads),
    )


def flow_of(*tables: Table) -> Flow:
    named = {one.name: one for one in tables}
    return Flow(project="p", tables=named, order=order_of(named))


FLOW = flow_of(
    table("d", "b", "c", "b"), table("b", "a"), table("c", "a", Read("c", ReadKind.PREVIOUS)), table("a"), table("e")
)


def test_order_is_upstream_first_and_passes_previous_by() -> None:
    order = FLOW.order
    assert sorted(order) == ["a", "b", "c", "d", "e"]
    assert order.index("a") < order.index("b") < order.index("d")
    assert order.index("c") < order.index("d")


def test_readers_of_each_table() -> None:
    assert readers_of(FLOW) == {"a": ("b", "c"), "b": ("d",), "c": ("c", "d"), "d": (), "e": ()}


def test_a_cycle_is_a_path_that_ends_where_it_begins() -> None:
    assert cycle_of({"a": ["b"], "b": []}) is None
    path = cycle_of({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]})
    assert path is not None
    assert path[0] == path[-1]
    edges = {"a": "b", "b": "c", "c": "a"}
    assert all(edges[reader] == read for reader, read in pairwise(path))
    assert cycle_of({"a": ["a"]}) == ("a", "a")


@pytest.mark.parametrize(
    ("edges", "groups"),
    [
        ({"a": ["b"], "b": []}, []),
        ({"a": ["a"], "b": ["a"]}, [{"a"}]),
        ({"a": ["b"], "b": ["a"], "c": ["d", "a"], "d": ["c"], "e": ["c"]}, [{"a", "b"}, {"c", "d"}]),
    ],
)
def test_components_are_the_sets_of_nodes_on_a_cycle(edges: dict[str, list[str]], groups: list[set[str]]) -> None:
    assert components_of(edges) == groups


NAMES = "abcdef"


def reaches(reads: dict[str, set[str]], start: str, goal: str) -> bool:
    """Return whether one or more reads lead from one table to another."""
    seen: set[str] = set()
    left = [start]
    while left:
        for other in reads.get(left.pop(), set()):
            if other == goal:
                return True
            if other not in seen:
                seen.add(other)
                left.append(other)
    return False


@given(st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES), max_size=3), max_size=6))
def test_circles_are_the_tables_that_reach_each_other(reads: dict[str, set[str]]) -> None:
    expected = {
        name: {other for other in reads if reaches(reads, name, other) and reaches(reads, other, name)}
        for name in reads
        if reaches(reads, name, name)
    }
    assert circles_of(reads) == expected


def test_a_long_chain_has_no_circle() -> None:
    assert circles_of({f"t{n}": {f"t{n - 1}"} for n in range(1, 5000)} | {"t0": set()}) == {}
