"""Quarantined rows that are missing after a slice was sealed again are reported. No Spark."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import table
from tests.tiny import Heard
from tests.unit.engine.fakes import manifest
from waterclock.batches.records import Slice
from waterclock.engine.maintenance import repair
from waterclock.storage.slices.manifest import DataFile

ASIDE = DataFile("_stage/_quarantine/a.parquet", 9, 2, "{}")


@pytest.mark.parametrize(
    ("rows", "aside", "said"),
    [
        pytest.param(3, (), "3 quarantined rows of marts.days@20130103000000 are lost", id="all"),
        pytest.param(3, (ASIDE,), "1 quarantined rows of marts.days@20130103000000 are lost", id="those of one file"),
        pytest.param(2, (ASIDE,), "", id="none"),
        pytest.param(0, (), "", id="there were none"),
    ],
)
def test_quarantined_rows_are_not_lost_without_a_word(
    monkeypatch: pytest.MonkeyPatch, rows: int, aside: tuple[DataFile, ...], said: str
) -> None:
    made = replace(manifest("marts.days", 2), aside=aside)
    monkeypatch.setattr(repair, "reseal", lambda *_, **__: made)
    monkeypatch.setattr(repair, "schema_text", lambda _: "{}")
    monkeypatch.setattr(repair, "written_schema", lambda *_: None)
    revision = SimpleNamespace(source={}, measures={"quarantined": rows} if rows else {})
    current = SimpleNamespace(code="c", revision=revision)
    work: Any = SimpleNamespace(
        ledger=SimpleNamespace(past=SimpleNamespace(audit=lambda *_: SimpleNamespace(current=current))),
        folder=lambda _: "",
        listener=Heard(),
    )
    piece = Slice("marts.days", made.label, made.label, 2, 1, 1, 1, "1:1:1", "_stage", None)
    assert repair._reseal_slice(work, work, table("marts.days"), piece) is made
    found = work.listener.said_
    assert [text.partition(",")[0] for text in found] == ([said] if said else [])
    assert all("`waterclock recompute marts.days@20130103000000`" in text for text in found)
