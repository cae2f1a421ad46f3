"""Damaged and removed slices of another environment are reported with the environment and the fix."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import ledgers
from waterclock.engine.query.compared_revisions import ComparedSide
from waterclock.engine.query.table_comparison import ComparisonOptions, compare_table
from waterclock.errors import WaterclockError
from waterclock.ledger.read.revisions import CommittedRevision
from waterclock.storage.lake import Lake
from waterclock.storage.slices.manifest import MANIFEST

LABEL = datetime(2026, 1, 1, tzinfo=UTC)
TABLE = ledgers.table("marts.net")
SLICE = "_stage/y=2026/m=01/d=01/h=00/n=00/c=1"
REVISION = CommittedRevision(LABEL, 1, 1, 10, "10:1:1", SLICE, None, LABEL)


@pytest.mark.parametrize("content", [None, '{"digest'])
def test_a_current_slice_without_a_readable_manifest_is_damaged(tmp_path: Path, content: str | None) -> None:
    prod, dev = Lake(str(tmp_path / "prod")), Lake(str(tmp_path / "dev"))
    before = ComparedSide("in prod", TABLE, prod, {LABEL: REVISION})
    after = ComparedSide("in dev", TABLE, dev, {LABEL: replace(REVISION, digest="10:2:2")})
    folder = Path(prod.folder("marts.net")) / SLICE
    folder.mkdir(parents=True)
    if content is not None:
        (folder / MANIFEST).write_text(content)
    work: Any = SimpleNamespace(lake=dev, sessions=SimpleNamespace(own=None))
    with pytest.raises(WaterclockError, match=r"a file of marts\.net in prod is damaged or gone") as damaged:
        compare_table(work, before, after, ComparisonOptions())
    assert damaged.value.code == "E605"
    assert damaged.value.where == f"tables/marts/net/{SLICE}/{MANIFEST}"

    earlier = replace(before, revisions={LABEL: replace(REVISION, is_current=False)})
    if content is None:
        with pytest.raises(WaterclockError, match="the rows of a label in prod are gone") as gone:
            compare_table(work, earlier, after, ComparisonOptions())
        assert gone.value.code == "E640"
