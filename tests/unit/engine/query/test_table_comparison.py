"""Damaged and removed slices of another environment are reported with the environment and the fix."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StructType

from tests import ledgers
from waterclock.engine.query.compared_revisions import ComparedSide
from waterclock.engine.query.row_comparison import match_columns
from waterclock.engine.query.table_comparison import ComparisonOptions, compare_table
from waterclock.errors import WaterclockError
from waterclock.ledger.read.revisions import CommittedRevision
from waterclock.storage.lake import Lake
from waterclock.storage.slices.manifest import MANIFEST, Manifest

LABEL = datetime(2026, 1, 1, tzinfo=UTC)
TABLE = ledgers.table("marts.net")
SLICE = "_stage/y=2026/m=01/d=01/h=00/n=00/c=1"
REVISION = CommittedRevision(LABEL, 1, 1, 10, "10:1:1", SLICE, None, LABEL)
OTHER = SLICE.replace("c=1", "c=2")


def write_slice(lake: Lake, column: str, path: str = SLICE) -> None:
    """Write a sealed slice without rows, which has one column and `timelabel`."""
    folder = Path(lake.folder("marts.net")) / path
    folder.mkdir(parents=True)
    schema = StructType().add("timelabel", "string").add(column, "integer").json()
    manifest = Manifest(
        table="marts.net", label=LABEL, claim=1, slice_path=path, files=(), rows=0, bytes=0, digest="0:0:0",
        schema=schema, code="", source={}, sealed_at=LABEL,
    )  # fmt: skip
    (folder / MANIFEST).write_text(manifest.to_json())


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


def test_own_damage_is_not_reported_as_that_of_the_other_environment(tmp_path: Path) -> None:
    prod, dev = Lake(str(tmp_path / "prod")), Lake(str(tmp_path / "dev"))
    write_slice(prod, "id")
    before = ComparedSide("in prod", TABLE, prod, {LABEL: REVISION}, env="prod")
    after = ComparedSide("in dev", TABLE, dev, {LABEL: replace(REVISION, digest="10:2:2")})
    work: Any = SimpleNamespace(lake=dev, flow=ledgers.flow(), sessions=SimpleNamespace(own=None))
    with pytest.raises(WaterclockError) as damaged:
        compare_table(work, before, after, ComparisonOptions())
    assert "in prod" not in str(damaged.value)


def test_columns_of_labels_without_rows_are_compared(tmp_path: Path) -> None:
    prod, dev = Lake(str(tmp_path / "prod")), Lake(str(tmp_path / "dev"))
    empty = replace(REVISION, rows=0, digest="0:0:0")
    before = ComparedSide("in prod", TABLE, prod, {LABEL: empty})
    after = ComparedSide("in dev", TABLE, dev, {LABEL: empty})

    def refuse() -> Any:
        raise AssertionError("Spark is started")

    work: Any = SimpleNamespace(lake=dev, sessions=SimpleNamespace(own=refuse))
    write_slice(prod, "id")
    write_slice(dev, "id")
    assert compare_table(work, before, after, ComparisonOptions()).equal == 1
    other = replace(after, revisions={LABEL: replace(empty, slice_path=OTHER)})
    write_slice(dev, "key", OTHER)
    with pytest.raises(AssertionError, match="Spark is started"):
        compare_table(work, before, other, ComparisonOptions())
    assert compare_table(work, before, other, ComparisonOptions(ignored=("id", "key"))).equal == 1


@pytest.mark.parametrize(
    ("key", "expected"),
    [(("TimeLabel", "id", "ID"), ("timelabel", "id")), (("id",), ("id",)), (("timelabel", "other"), ())],
)
def test_timelabel_is_a_column_of_a_key(key: tuple[str, ...], expected: tuple[str, ...]) -> None:
    rows: Any = SimpleNamespace(schema=StructType().add("timelabel", "string").add("id", "integer").add("v", "integer"))
    assert match_columns(rows, rows, key).key == expected
    assert ("timelabel" in match_columns(rows, rows, key).names) is ("id" not in key or len(key) > 1)
