"""The collector of received events adapts that of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.receiving import collector_of, project_with_door
from tests.systems import unit_of
from waterclock.connectors.files.connector import FilesCollector
from waterclock.connectors.interface import Collected
from waterclock.flow.declarations import Columns


def test_a_key_that_no_event_of_a_window_has_is_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame: Any = object()
    monkeypatch.setattr(FilesCollector, "read_items", lambda *_: Collected(frame, left_out=("_event", "price")))
    spark: Any = None
    collector = collector_of(project_with_door(tmp_path / "shop"))
    found = collector.read_items(spark, unit_of("door", "events"), {}, Columns(), "UTC")
    assert found.may_miss_columns
    assert found.left_out == ("price",)
