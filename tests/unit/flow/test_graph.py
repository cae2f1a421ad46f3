from __future__ import annotations

from itertools import pairwise

import pytest

from waterclock.flow.choices import Kind, Mode, ReadKind, TableType
from waterclock.flow.declarations import Flow, Place, Read, Table
from waterclock.flow.graph import components_of, cycle_of, downstream_of, order_of, readers_of, upstream_of
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


def test_readers_upstream_and_downstream() -> None:
    assert readers_of(FLOW) == {"a": ("b", "c"), "b": ("d",), "c": ("c", "d"), "d": (), "e": ()}
    assert upstream_of(FLOW, "d") == {"a", "b", "c"}
    assert downstream_of(FLOW, "a") == {"b", "c", "d"}
    assert upstream_of(FLOW, "e") == frozenset()


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
def test_components_are_what_reaches_itself_in_a_circle(edges: dict[str, list[str]], groups: list[set[str]]) -> None:
    assert components_of(edges) == groups
