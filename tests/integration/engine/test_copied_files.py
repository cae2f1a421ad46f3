"""A project that collects files unchanged and publishes copies of them, batch by batch."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, evening

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "replicate.md").read_text(encoding="utf-8")


def flow_of_page() -> str:
    """Return the page's flow that copies files, between the connections of a tiny project."""
    block = PAGE.partition("## Copy files")[2].partition("```sql")[2].partition("```")[0]
    lines = (line for line in block.splitlines() if "CONNECTION" not in line)
    return "\n".join(lines).replace("landing.", "land.").replace("mirror.", "files.")


def found_in(folder: Path) -> dict[str, tuple[bytes, float]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime) for path in files}


def test_files_are_copied_unchanged_and_a_corrupted_copy_fails_the_next_batch(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny, drawn = Tiny(tmp_path, spark), random.Random(5)
    tiny.declare(flow_of_page())
    landing, copies = tmp_path / "landing" / "new", tmp_path / "files" / "copies"
    sent: dict[str, tuple[bytes, float]] = {}
    for number in (1, 2):
        for kind in ("pdf", "csv.gz.gpg", "no ending"):
            path = landing / "scans" / f"{number}" / f"scan {evening(number):%Y%m%dT%H%M%S} {kind}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(drawn.randbytes(200_000))
            os.utime(path, (1_500_000_000.25 + number, 1_500_000_000.25 + number))
            sent[path.relative_to(landing).as_posix()] = path.read_bytes(), path.stat().st_mtime
        assert not (outcome := tiny.run(day(number + 1))).has_failed, described(outcome)
        assert found_in(copies) == sent
        assert found_in(landing) == {}
    assert len(tiny.rows("SELECT name, size FROM raw.scans WHERE size = 200000 AND length(sha256) = 64")) == len(sent)

    harmed = max(copies.rglob("*.pdf"))
    harmed.write_bytes(harmed.read_bytes()[:-1] + b"?")
    late = landing / "scans" / "3" / f"scan {evening(3):%Y%m%dT%H%M%S}.pdf"
    late.parent.mkdir()
    late.write_bytes(b"%PDF")
    outcome = tiny.run(day(4))
    assert "E824" in described(outcome)
    assert "has other content" in described(outcome)
