"""Files that maintenance keeps although it found no user of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.ledgers import day, flow, table
from waterclock.engine.maintenance import maintain
from waterclock.storage.slices.inventory import SliceFolder
from waterclock.storage.slices.manifest import MANIFEST


@pytest.mark.parametrize(("held", "stays"), [({}, False), ({day(2): 7}, True)])
def test_a_slice_held_again_since_the_scan_is_kept_by_maintenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: dict[datetime, int], *, stays: bool
) -> None:
    """Regression: the check ran while the release was open, when nothing was held and the sealing claim had failed."""
    leaf = SliceFolder("_stage/20130103000000/c=7", 7, day(2), is_sealed=True)
    folder = tmp_path / leaf.path
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text("{}")
    ledger = SimpleNamespace(
        claims=SimpleNamespace(open=tuple),
        reads=SimpleNamespace(held_labels=lambda _: held),
        maintenance=SimpleNamespace(current_rebuilding=lambda: None, holds=dict),
    )
    work = SimpleNamespace(flow=flow(table("raw.a", partitioned=True)), folder=lambda _: str(tmp_path), ledger=ledger)
    monkeypatch.setattr(maintain, "find_log_error", lambda *_: None)
    maintain.maintain_table(work, maintain.TableMaintenance("raw.a", slice_folders=[leaf]), datetime.now(UTC))  # type: ignore[arg-type]
    assert folder.exists() is stays
