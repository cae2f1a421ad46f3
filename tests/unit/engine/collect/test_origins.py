from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.ledgers import SOMEWHERE, table
from waterclock.engine.collect.origins import add_origins
from waterclock.flow.declarations import Column, Columns, Table


class Rows:
    """A frame that records the selected columns."""

    def __init__(self, *columns: str) -> None:
        self.columns = list(columns)

    def selectExpr(self, *texts: str) -> tuple[str, ...]:  # noqa: N802 - Spark's own name
        return texts


def of(*columns: Column) -> Table:
    return replace(table("a.b"), columns=Columns(columns))


FILE = Column("File", SOMEWHERE, metadata_field="file")


def made(told: Table, *columns: str) -> Any:
    return add_origins(told, Rows(*columns))  # type: ignore[arg-type]  # a fake frame


def test_source_metadata_becomes_a_column_and_is_also_kept_in_its_hidden_column() -> None:
    in_rows = "_waterclock_source_file"
    assert made(of(FILE), "id", in_rows) == ("`id`", f"`{in_rows}`", f"coalesce(`{in_rows}`) AS `File`")


def test_stored_rows_take_source_metadata_from_their_own_column() -> None:
    in_rows = "_waterclock_source_file"
    assert made(of(FILE), "id", "file") == ("`id`", "`file`", f"CAST(`file` AS STRING) AS `{in_rows}`")
    assert made(of(FILE), "file", in_rows) == (f"`{in_rows}`", f"coalesce(`{in_rows}`, `file`) AS `File`")


def test_unavailable_source_metadata_is_null() -> None:
    assert made(of(Column("n", SOMEWHERE, metadata_field="row")), "id") == ("`id`", "CAST(NULL AS BIGINT) AS `n`")
    rows = Rows("id")
    assert add_origins(of(Column("id", SOMEWHERE)), rows) is rows  # type: ignore[arg-type,comparison-overlap]
