"""Lineage recorded with a batch: with a Spark plan, without one, and for code that collects values into Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import Desk, desk, table
from tests.unit.engine.batch.test_plan_lineage import attribute, node
from waterclock.engine.batch.code_lineage import alias_inputs, record_lineage
from waterclock.engine.code_lineage_cache import CodeLineages
from waterclock.flow.code_lineage import CodeLineage, Input
from waterclock.flow.declarations import Place, PythonFunction, Read, Table

PLAIN = "def f(t):\n    return t\n"
PARTING = "def f(t):\n    return t if t else t\n"


@pytest.fixture
def at_desk() -> Iterator[Desk]:
    opened = desk()
    with opened.ledger:
        yield opened


class Plan:
    """A frame of classic PySpark with only columns and a plan."""

    def __init__(self, *columns: str, alias: str = "") -> None:
        self.columns, self.name, self.asked = list(columns), alias, 0

    @property
    def _jdf(self) -> Any:
        return SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=lambda: self))

    def alias(self, name: str) -> Plan:
        return Plan(*self.columns, alias=name)

    def toJSON(self) -> str:  # noqa: N802 - Spark's name
        self.asked += 1
        relation = node("LogicalRelation", output=[attribute(each, at) for at, each in enumerate(self.columns)])
        return json.dumps(node("SubqueryAlias", relation, identifier={"name": self.name}))


class Remote:
    """A frame of Spark Connect, where each access is a message to the server."""


def of(column: str) -> frozenset[Input]:
    return frozenset({("raw.t", column)})


def made_by(folder: Path, code: str) -> Table:
    (folder / "a.py").write_text(code)
    place = Place("a.py", 1, 1)
    return replace(table("mart.m", partitioned=True), function=PythonFunction("a.py", "f", (), code, place, code),
                   reads=(Read("raw.t"),), fingerprint=code)  # fmt: skip


def note(at: Desk, folder: Path, code: str, *frames: Any) -> CodeLineage:
    made = made_by(folder, code)
    at.apply(made)
    work: Any = SimpleNamespace(code_lineages=CodeLineages(folder, at.ledger))
    for frame in frames:
        given, sources = alias_inputs({Read("raw.t"): frame}, ())
        rows = given[Read("raw.t")]
        record_lineage(work, made, rows, given, sources)
        record_lineage(work, made, rows, given, sources)
        frame.asked = getattr(rows, "asked", 0)
    return at.ledger.lineage.of_code(at.flow)["mart.m"]


def test_lineage_of_several_plans_is_merged_without_the_timelabel_column(at_desk: Desk, tmp_path: Path) -> None:
    found = note(at_desk, tmp_path, PLAIN, Plan("a", "timelabel"), Plan("a", "b"))
    assert {name: made.inputs for name, made in found.columns.items()} == {"a": of("a"), "b": of("b")}


@pytest.mark.parametrize(("code", "times"), [(PLAIN, 1), (PARTING, 2)])
def test_a_plan_is_requested_again_only_if_the_code_may_branch(
    at_desk: Desk, tmp_path: Path, code: str, times: int
) -> None:
    frame = Plan("a")
    note(at_desk, tmp_path, code, frame)
    assert frame.asked == times


def test_values_that_are_brought_to_python_make_all_maybe(at_desk: Desk, tmp_path: Path) -> None:
    made = note(at_desk, tmp_path, "def f(t):\n    return t.limit(t.count())\n", Plan("a")).columns["a"]
    assert (made.inputs, made.maybe) == (of("a"), of("*"))
    assert made.why == {"count() in a.py:2"}


def test_over_spark_connect_no_plan_is_requested_and_all_lineage_is_maybe(at_desk: Desk, tmp_path: Path) -> None:
    found = note(at_desk, tmp_path, PLAIN, Remote())
    assert {name: made.maybe for name, made in found.columns.items()} == {"*": of("*")}
    assert found.uses == {"may read": of("*")}


def test_a_plan_that_cannot_be_read_makes_all_maybe(
    at_desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plan, "toJSON", lambda _: "no plan")
    found = note(at_desk, tmp_path, PLAIN, Plan("a"))
    assert found.columns["a"].maybe == of("*")
