"""A project that takes files as they are and sends copies of them on: all of it, batch by batch."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, evening

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT raw.scans PARTITIONED FROM land.`scans/**/*` OPTIONS (format 'raw') EVERY DAY BY ARRIVAL TIME;
PUBLISH raw.scans TO files.copies OPTIONS (format 'raw', keep 'all') EXPECT size < 5000000 AS is_small;
"""


def found_in(folder: Path) -> dict[str, tuple[bytes, float]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime) for path in files}


def test_files_come_out_as_they_went_in_and_a_harmed_copy_stops_the_next_batch(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny, drawn = Tiny(tmp_path, spark), random.Random(5)
    tiny.declare(FLOW)
    landing, copies = tmp_path / "landing" / "new", tmp_path / "files" / "copies"
    sent: dict[str, tuple[bytes, float]] = {}
    for number in (1, 2):
        for kind in ("pdf", "csv.gz.gpg", "no ending"):
            path = landing / "scans" / f"{number}" / f"scan {evening(number):%Y%m%dT%H%M%S} {kind}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(drawn.randbytes(200_000))
            os.utime(path, (1_500_000_000.25 + number, 1_500_000_000.25 + number))
            sent[path.relative_to(landing).as_posix()] = path.read_bytes(), path.stat().st_mtime
        assert tiny.run(day(number + 1)).ok
        assert found_in(copies) == sent
        assert found_in(landing) == {}
    asked = tiny.query("SELECT name, size, length(sha256) AS n FROM raw.scans") if hasattr(tiny, "query") else None
    assert asked is None or len(asked) == len(sent)

    harmed = max(copies.rglob("*.pdf"))
    harmed.write_bytes(harmed.read_bytes()[:-1] + b"?")
    late = landing / "scans" / "3" / f"scan {evening(3):%Y%m%dT%H%M%S}.pdf"
    late.parent.mkdir()
    late.write_bytes(b"%PDF")
    assert not tiny.run(day(4)).ok
    errors = [str(report.error) for report in tiny.heard.finished_ if getattr(report, "error", None)]
    assert any("E824" in error and "holds something else" in error for error in errors), errors
