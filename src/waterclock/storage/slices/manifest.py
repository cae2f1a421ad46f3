"""A sealed slice: its files with their statistics, and the manifest that seals it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from waterclock.batches.records import QUARANTINED
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.filesystem import at, is_there, look, put_if_absent, read_bytes
from waterclock.timelabel.label import instant_of, label_of

MANIFEST = "_manifest.json"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a slice: `path` relative to the table's folder, `stats` the JSON of Delta's add action.

    `nulls` counts nulls of every top-level column that is not nested; `types` are the file's own, as in Delta's schema.
    """

    path: str
    size: int
    rows: int
    stats: str
    nulls: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Says all of one sealed slice. Without it a slice is not sealed, and nobody reads it.

    `digest` is 'rows:high:low', None where it is to be made by a scan. `schema` is Spark's schema JSON, `timelabel`
    first. `source` are positions in the source. For MERGE: `order_high` and `order_low` bound the rows' ORDER BY
    values, `delete_high` bounds those of its deletes (as `storage.order` writes them). `aside` are the files of rows
    that were set aside, `aside_schema` the columns in which these came, `aside_rules` the demands that a row's bits
    stand for.
    """

    table: str
    label: datetime
    claim: int
    slice_path: str
    files: tuple[DataFile, ...]
    rows: int
    bytes: int
    digest: str | None
    schema: str
    code: str
    source: Mapping[str, Any]
    sealed_at: datetime
    has_deletes: bool = False
    order_high: Any = None
    order_low: Any = None
    delete_high: Any = None
    aside: tuple[DataFile, ...] = ()
    aside_schema: str = ""
    aside_rules: tuple[str, ...] = ()
    aside_digest: str = ""

    @property
    def aside_rows(self) -> int:
        """How many rows of the batch are not in the slice but in its quarantine."""
        return sum(file.rows for file in self.aside)

    def to_json(self) -> str:
        """Write the manifest as JSON; labels as text, instants in ISO."""
        parts = _shallow(self) | {
            "label": label_of(self.label),
            "files": [_shallow(file) for file in self.files],
            "aside": [_shallow(file) for file in self.aside],
            "schema": json.loads(self.schema),
            "sealed_at": self.sealed_at.isoformat(),
        }
        return json.dumps(parts, separators=(",", ":"), default=str)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read what `to_json` wrote."""
        parts = json.loads(text)
        parts |= {
            "label": instant_of(parts["label"]),
            "files": tuple(DataFile(**file) for file in parts["files"]),
            "aside": tuple(DataFile(**file) for file in parts.get("aside", ())),
            "aside_rules": tuple(parts.get("aside_rules", ())),
            "schema": sys.intern(json.dumps(parts["schema"], separators=(",", ":"))),  # alike in thousands
            "sealed_at": datetime.fromisoformat(parts["sealed_at"]).astimezone(UTC),
        }
        return cls(**parts)


def aside_measure(manifest: Manifest) -> dict[str, int]:
    """Return the measure of a batch that counts its rows which were set aside, where it has some."""
    return {QUARANTINED: manifest.aside_rows} if manifest.aside else {}


def _shallow(part: DataFile | Manifest) -> dict[str, Any]:
    """Return the fields by name, not copied: `asdict` copies every value that JSON is about to write."""
    return {field.name: getattr(part, field.name) for field in fields(part)}


def is_sealed(folder: str, slice_path: str) -> bool:
    """Tell whether the slice has its manifest."""
    return is_there(at(folder, slice_path, MANIFEST))


def read_manifest(folder: str, slice_path: str) -> Manifest:
    """Read the manifest of a sealed slice; one that was read before costs a look at its file.

    Raises  E605 where there is none, or it cannot be read
    """
    path = at(folder, slice_path, MANIFEST)
    try:
        found = look(path)
        return _read(path, found.size, found.changed)
    except (OSError, ValueError, KeyError, TypeError) as error:
        missing = isinstance(error, FileNotFoundError)
        raise WaterclockError(
            "E605",
            "the slice is not sealed" if missing else "the slice's manifest cannot be read",
            where=str(path),
            why="its manifest is missing" if missing else f"{type(error).__name__}: {error}",
            fix="make the batch again: a slice without its manifest is read by nobody",
        ) from error


# a TEMPORAL table reads those of all its slices in one order: were there more than are kept, each would be missed
@lru_cache(maxsize=1 << 15)
def _read(path: Path, *_: object) -> Manifest:
    """Read a manifest. What follows the path tells one file from another that came to lie there."""
    return Manifest.from_json(read_bytes(path).decode())


def seal(folder: str, manifest: Manifest) -> None:
    """Write the manifest, last of all; from then on the slice is never changed.

    Raises  E604 where the slice is sealed already
    """
    fault("seal")
    if not put_if_absent(at(folder, manifest.slice_path, MANIFEST), manifest.to_json()):
        raise already_sealed(folder, manifest.slice_path)


def already_sealed(folder: str, slice_path: str) -> WaterclockError:
    """Return the error of a claim that would write a slice twice."""
    return WaterclockError(
        "E604",
        "the slice is sealed already",
        where=f"{folder}/{slice_path}",
        why="a claim writes each of its slices once, and nothing rewrites a sealed one",
        fix="take a new claim for the batch",
    )
