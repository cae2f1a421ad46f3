"""JSON keys that Spark infers, in files with unreadable lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from waterclock.connectors.files import file_schemas
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.files.scanning import scan
from waterclock.flow.enums import Action
from waterclock.flow.rule_actions import RuleAction, UnparsedLines
from waterclock.storage.slices.row_filter import UNREAD
from waterclock.testing.connectors import declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_line_that_cannot_be_read_is_no_column_of_its_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_schemas, "_MOST_PARSED", 0)
    path = tmp_path / "a.json"
    path.write_text('{"id": "1", "note": "n"}\n{"id": "2", "no\n')
    columns = replace(declared(), unread=UnparsedLines("readable", (RuleAction(Action.QUARANTINE),)))
    scanned = scan(spark, [str(path)], ReadOptions(), columns, "UTC")
    assert scanned.merge_column_types() == {"id": "STRING", "note": "STRING"}
    rows = {(row["id"], row["note"], row[UNREAD]) for row in scanned.frame.collect()}
    assert rows == {("1", "n", None), (None, None, '{"id": "2", "no')}
