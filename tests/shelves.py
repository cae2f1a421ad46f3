"""Archived originals of files of a raw collect, and the deliveries of their rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from waterclock.connectors.delivering import Delivery
from waterclock.flow.enums import Mode

DAY = datetime(2013, 1, 1, tzinfo=UTC)


class Shelf:
    """An archive of files, and the rows that a raw collect of them would have sealed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        self.gone: set[str] = set()
        self.archive = root / "archive"
        (root / "archive").mkdir()

    def file(self, name: str, content: bytes, changed: datetime = DAY) -> Path:
        path = self.root / "archive" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (changed.timestamp(), changed.timestamp()))
        return path

    def places(self, names: Collection[str]) -> Mapping[str, str]:
        self.asked.extend(names)
        found = {name: self.archive / name for name in names if name not in self.gone}
        return {name: str(path) for name, path in found.items() if path.exists()}

    def move_to(self, archive: Path, copy: Callable[[Path, Path], None]) -> None:
        """Move the originals to another folder."""
        for path in (self.root / "archive").iterdir():
            copy(path, archive / path.name)
        self.archive = archive

    def forget(self, name: str) -> None:
        """Make an original unavailable."""
        self.gone.add(name)

    def delivery(self, paths: Sequence[Path], claim: int = 1, label: int = 1, **changes: Any) -> Delivery:
        rows = [
            {
                "name": path.relative_to(self.root / "archive").as_posix(),
                "stamp": DAY + timedelta(seconds=number),
                "changed": datetime.fromtimestamp(path.stat().st_mtime, UTC),
                "size": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for number, path in enumerate(paths)
        ]
        instant = pa.timestamp("us", tz="UTC")
        schema = pa.schema(
            [
                ("name", pa.string()),
                ("stamp", instant),
                ("changed", instant),
                ("size", pa.int64()),
                ("sha256", pa.string()),
            ]
        )
        sealed = self.root / f"{claim}-{label}.parquet"
        pq.write_table(pa.Table.from_pylist(rows[::-1], schema), sealed)
        said = {
            "project": "scans", "publish": "out.copy", "claim": claim, "label": DAY + timedelta(days=label),
            "label_text": f"201301{label:02}000000", "mode": Mode.APPEND, "is_from_partitioned": True,
            "columns": tuple((name, "STRING") for name in schema.names), "files": (sealed,), "places": self.places,
        }  # fmt: skip
        return Delivery(**{**said, **changes})
