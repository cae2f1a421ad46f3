"""Records kept of a damaged slice that a user gave up. No Spark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.engine.fakes import collect
from waterclock.batches.records import Slice
from waterclock.engine.batch import given_up_batches
from waterclock.flow.enums import Batching, Mode


@pytest.mark.parametrize(
    ("batching", "mode", "kept"),
    [
        (Batching.ARRIVAL_TIME, Mode.APPEND, {"items", "read"}),
        (Batching.DATA_TIME, Mode.MERGE, {"items", "read"}),  # a later `recollect` reads all of these files
        (Batching.SNAPSHOT, Mode.REPLACE, set()),
    ],
)
def test_the_files_of_its_window_stay_known(
    monkeypatch: pytest.MonkeyPatch, batching: Batching, mode: Mode, kept: set[str]
) -> None:
    monkeypatch.setattr(given_up_batches, "source_notes_of", lambda *_: {"items": [1], "read": [2], "pages": 3})
    anything: Any = None
    piece: Any = Slice.__new__(Slice)
    found = given_up_batches._items_of(anything, collect("web.clicks", batching=batching, mode=mode), piece)
    assert set(found) == kept
