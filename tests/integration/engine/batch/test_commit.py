"""The checks of a commit before it folds a slice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.reads.as_of import list_state_steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
COLUMNS = "(id INT KEY, v INT, gone BOOLEAN, at TIMESTAMP)"
FROM = "FROM shop.kinds EVERY DAY BY DATA TIME at MERGE ORDER BY at"


def test_slices_are_listed_only_for_tables_with_deletes(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = Tiny(tmp_path, spark)
    rows = [(1, number, number == 2, f"2020-01-0{number} 12:00:00") for number in (1, 2, 3)]
    tiny.source("kinds", "id INT, v INT, gone BOOLEAN, at TEXT", rows)
    tiny.declare(f"COLLECT raw.kept {COLUMNS} {FROM};\nCOLLECT raw.gone {COLUMNS} {FROM} DELETE WHEN gone;")
    asked: list[str] = []

    def noted(ledger: Any, table: str, instant: Any) -> Any:
        asked.append(table)
        return list_state_steps(ledger, table, instant)

    monkeypatch.setattr("waterclock.engine.batch.commit.list_state_steps", noted)
    for number in (2, 3, 4):
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)
    assert asked == ["raw.gone"] * 3
    assert tiny.rows("SELECT id, v FROM raw.kept") == tiny.rows("SELECT id, v FROM raw.gone") == [(1, 3)]
