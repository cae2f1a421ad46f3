"""A runner sees the schema versions that were recorded since its last check. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tests.ledgers import SOMEWHERE
from tests.tiny import CONNECTIONS, day
from waterclock.batches.schemas import SchemaVersion, Side
from waterclock.connectors.interface import Collected
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.batch.table_schema_changes import find_new_schema
from waterclock.engine.collect.source_schema_changes import SourceChanges, find_source_changes, fit_columns
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import open_workplace
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column
from waterclock.flow.enums import Mode
from waterclock.flow.merge_settings import Merge

TOML = """
[project]
name = "tiny"
[env.dev]
storage = ".waterclock"
connections.shop = { path = "shop.sqlite" }
connections.out = { path = "out.sqlite", create = true }
connections.land = { path = "landing/new" }
connections.files = { path = "files" }
"""
COLLECT = """
COLLECT web.clicks PARTITIONED (*) FROM land.acme.clicks EVERY DAY START '2020-01-01' BY ARRIVAL TIME
ON SCHEMA CHANGE {};
"""
OLD, NEW = {"id": "BIGINT"}, {"id": "BIGINT", "city": "STRING"}
_FRAME: Any = None  # no row is read


@pytest.fixture
def recorded() -> list[SchemaVersion]:
    """The versions in the ledger."""
    sides = (Side.SOURCE, Side.TABLE)
    return [SchemaVersion(side, 1, day(1), 1, OLD, day(1)) for side in sides]


@pytest.fixture
def make_work(tmp_path: Path, recorded: list[SchemaVersion]) -> Iterator[Callable[[str], RunContext]]:
    """Yield a function that opens a project whose table has the given ON SCHEMA CHANGE."""
    with ExitStack() as opened:

        def make(on_change: str) -> RunContext:
            (tmp_path / "flows").mkdir()
            (tmp_path / "waterclock.toml").write_text(TOML)
            (tmp_path / "flows" / "flow.dpl").write_text(CONNECTIONS + COLLECT.format(on_change))
            work = opened.enter_context(open_workplace(load_project(tmp_path, capabilities=capabilities())))
            reads: Any = SimpleNamespace(schemas=lambda _: tuple(recorded))
            past: Any = SimpleNamespace(reads=reads)
            work.past = past
            return work

        yield make


def test_a_change_that_a_batch_recorded_since_is_refused_no_more(
    make_work: Callable[[str], RunContext], recorded: list[SchemaVersion]
) -> None:
    work = make_work("FAIL")
    table, read = work.flow.tables["web.clicks"], Collected(_FRAME, source_columns=NEW)
    with pytest.raises(WaterclockError, match="source changed"):
        find_source_changes(work, table, read, [day(2)])
    recorded.append(SchemaVersion(Side.SOURCE, 2, day(2), 2, NEW, day(3)))
    assert find_source_changes(work, table, read, [day(3)]) == SourceChanges({}, {})


def test_a_change_that_a_user_released_holds_no_later_batch(
    make_work: Callable[[str], RunContext], recorded: list[SchemaVersion]
) -> None:
    work = make_work("HOLD")
    table, read = work.flow.tables["web.clicks"], Collected(_FRAME, source_columns=NEW)
    made = StructType([StructField("id", LongType())])
    assert list(find_source_changes(work, table, read, [day(2)]).holds) == [day(2)]
    assert find_new_schema(work, table, None, made, day(2)) == {}
    recorded.append(SchemaVersion(Side.SOURCE, 2, day(2), 2, NEW, day(3)))
    assert find_source_changes(work, table, read, [day(3)]) == SourceChanges({}, {})


def test_columns_of_the_table_that_a_batch_recorded_since_are_not_new(
    make_work: Callable[[str], RunContext], recorded: list[SchemaVersion]
) -> None:
    work = make_work("ADD")
    table = work.flow.tables["web.clicks"]
    made = StructType([StructField("id", LongType()), StructField("city", StringType())])
    assert work.schemas_of("web.clicks") == tuple(recorded)
    recorded.append(SchemaVersion(Side.TABLE, 2, day(2), 2, NEW, day(3)))
    assert find_new_schema(work, table, None, made, day(3)) == {}


def test_columns_that_senders_invent_over_many_windows_have_a_limit(make_work: Callable[[str], RunContext]) -> None:
    table = make_work("ADD").flow.tables["web.clicks"]
    stored = StructType([StructField(f"c{number}", StringType()) for number in range(9_999)])
    for added, is_refused in ((["a"], False), (["a", "b"], True)):
        frame: Any = SimpleNamespace(columns=[field.name for field in stored.fields] + added)
        if is_refused:
            with pytest.raises(WaterclockError, match=r"web\.clicks would have 10,001 columns"):
                fit_columns(table, Collected(frame), stored)
        else:
            assert fit_columns(table, Collected(frame), stored).frame is frame


@pytest.mark.parametrize(("delete_when", "is_refused"), [("coalesce(Gone, FALSE)", True), ("state = 'gone'", False)])
def test_a_column_by_which_rows_are_deleted_must_be_there(
    make_work: Callable[[str], RunContext], delete_when: str, *, is_refused: bool
) -> None:
    table = make_work("IGNORE").flow.tables["web.clicks"]
    table = replace(table, mode=Mode.MERGE, fold=Merge(("id",), delete_when=delete_when))
    stored = StructType([StructField("id", LongType()), StructField("gone", StringType())])
    frame: Any = SimpleNamespace(columns=["id"])
    if is_refused:
        with pytest.raises(WaterclockError, match=r"web\.clicks needs gone") as refused:
            fit_columns(table, Collected(frame), stored)
        assert refused.value.code == "E771"
    else:
        assert fit_columns(table, Collected(frame), stored).frame is frame


@pytest.mark.parametrize("seen", [{"id": "BIGINT", "city": "STRING"}, {}])
def test_the_columns_of_the_first_batch_are_not_new_beside_declared_ones(
    make_work: Callable[[str], RunContext], seen: dict[str, str]
) -> None:
    table = make_work("IGNORE").flow.tables["web.clicks"]
    table = replace(table, columns=replace(table.columns, named=(Column("id", SOMEWHERE),)))
    frame: Any = SimpleNamespace(columns=["id", "city"])
    found = fit_columns(table, Collected(frame, source_columns=seen), None)
    assert (found.frame is frame, found.left_out) == (True, ())
    stored = StructType([StructField("id", LongType())])
    smaller: Any = SimpleNamespace(columns=["id", "city"], drop=lambda *names: names)
    assert fit_columns(table, Collected(smaller, source_columns=seen), stored).left_out == ("city",)
