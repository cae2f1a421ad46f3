"""Defines the manifest, which seals a slice and lists its files with their statistics, and reads and writes it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.batches.records import QUARANTINED, BatchResult
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, file_exists, put_if_absent, read_bytes, stat_file
from waterclock.storage.schema_types import widen_schema
from waterclock.storage.slices.row_filter import MISSING
from waterclock.timelabel.label import instant_of, label_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MANIFEST = "_manifest.json"
_SHARED = ("label", "rows", "bytes", "digest", "slice_path", "source")  # with the result of a batch


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a slice: `path` relative to the table's folder, `stats` the JSON of Delta's add action.

    `nulls` counts the nulls of every top-level column that is not nested. `types` are the types in the file, in the
    form of Delta's schema.
    """

    path: str
    size: int
    rows: int
    stats: str
    nulls: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest of one sealed slice. A slice without a manifest is not sealed, and is never read.

    `digest` is 'rows:high:low', or None if a scan must compute it. `schema` is Spark's schema JSON, `timelabel` first.
    `source` contains positions in the source. For MERGE, `order_high` and `order_low` bound the rows' ORDER BY values,
    and `delete_high` bounds those of its deletes (in the format of `storage.slices.order_bounds`). `measured_for` is
    the result of its `fold_signature`. `aside` are the files of quarantined rows, `aside_schema` their columns as
    received, and `aside_rules` the names of the rules for a row's bits. `buckets` is the number of buckets that the
    files are named after, by the columns `bucketed_by`; 0 for other files.
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
    measured_for: str = ""
    aside: tuple[DataFile, ...] = ()
    aside_schema: str = ""
    aside_rules: tuple[str, ...] = ()
    aside_digest: str = ""
    bucketed_by: tuple[str, ...] = ()
    buckets: int = 0

    @property
    def aside_rows(self) -> int:
        """The number of quarantined rows of the batch, which are not in the slice itself."""
        return sum(file.rows for file in self.aside)

    def result(self, end: datetime, version: int = -1, **others: Any) -> BatchResult:
        """Build the result of the batch, whose window ends at `end`. `others` are fields that a slice does not have.

        `version` is the Delta version of the commit, -1 before it.
        """
        own = {name: getattr(self, name) for name in _SHARED}
        return BatchResult(end=end, version=version, **own | others)

    def to_json(self) -> str:
        """Return the manifest as JSON, with labels as text and instants in ISO format."""
        parts = fields_by_name(self) | {
            "label": label_of(self.label),
            "files": [fields_by_name(file) for file in self.files],
            "aside": [fields_by_name(file) for file in self.aside],
            "schema": json.loads(self.schema),
            "sealed_at": self.sealed_at.isoformat(),
        }
        return json.dumps(parts, separators=(",", ":"), default=str)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Parse the result of `to_json`."""
        parts = json.loads(text)
        parts |= {
            "label": instant_of(parts["label"]),
            "files": tuple(_parse_file(file) for file in parts["files"]),
            "aside": tuple(_parse_file(file) for file in parts.get("aside", ())),
            "aside_rules": tuple(parts.get("aside_rules", ())),
            "bucketed_by": tuple(parts.get("bucketed_by", ())),
            "schema": sys.intern(json.dumps(parts["schema"], separators=(",", ":"))),  # thousands share one schema
            "sealed_at": datetime.fromisoformat(parts["sealed_at"]).astimezone(UTC),
        }
        return cls(**parts)


def _parse_file(parts: Mapping[str, Any]) -> DataFile:
    """Return a file of a manifest. Raises ValueError for a path outside of the table's folder."""
    require_within(str(parts["path"]))
    return DataFile(**parts)


def require_within(path: str) -> None:
    """Raise ValueError for a path that leads out of its folder. The manifest may be that of another project."""
    if path.startswith("/") or ":" in path.partition("/")[0] or ".." in path.split("/"):
        raise ValueError(f"the path {path!r} leads out of the table's folder")


def quarantine_measure(manifest: Manifest) -> dict[str, int]:
    """Return the number of quarantined rows as a measure of the batch, or an empty dict if there are none."""
    return {QUARANTINED: manifest.aside_rows} if manifest.aside else {}


def fields_by_name(part: DataclassInstance) -> dict[str, Any]:
    """Return the fields of a record by name. The values are not copied, as `asdict` does."""
    return {field.name: getattr(part, field.name) for field in fields(part)}


def is_sealed(folder: str, slice_path: str) -> bool:
    """Return whether the slice has its manifest."""
    return file_exists(entry_path(folder, slice_path, MANIFEST))


def read_manifest(folder: str, slice_path: str) -> Manifest:
    """Read the manifest of a sealed slice, from a cache if possible. Raises E605 if it is missing or unreadable.

    Cost: one `stat`, and a read the first time.
    """
    path = entry_path(folder, slice_path, MANIFEST)
    try:
        require_within(slice_path)
        found = stat_file(path)
        return _read_cached(path, found.size, found.changed)
    except (OSError, ValueError, KeyError, TypeError) as error:
        missing = isinstance(error, FileNotFoundError)
        raise WaterclockError(
            "E605",
            "the slice is not sealed" if missing else "the slice's manifest cannot be read",
            where=str(path),
            why="its manifest is missing" if missing else f"{type(error).__name__}: {error}",
            fix="run `waterclock recompute TABLE@LABEL` for this slice: a slice without a manifest is never read",
        ) from error


# a TEMPORAL table reads the manifests of all its slices in one order: a cache smaller than their number would never hit
@lru_cache(maxsize=1 << 15)
def _read_cached(path: Path, *_: object) -> Manifest:
    """Read a manifest. The arguments after the path identify the file's content for the cache."""
    return Manifest.from_json(read_bytes(path).decode())


def seal(folder: str, manifest: Manifest) -> None:
    """Write the manifest that seals a slice, once its files are written. Raises E604 if it is sealed already."""
    fault("seal")
    if not put_if_absent(entry_path(folder, manifest.slice_path, MANIFEST), manifest.to_json()):
        raise already_sealed(folder, manifest.slice_path)


def require_unsealed(folder: str, paths: Iterable[str]) -> None:
    """Raise E604 if one of these slices is sealed."""
    for path in paths:
        if is_sealed(folder, path):
            raise already_sealed(folder, path)


def already_sealed(folder: str, slice_path: str) -> WaterclockError:
    """Return the error for a claim that would write a slice twice."""
    return WaterclockError(
        "E604",
        "the slice is sealed already",
        where=f"{folder}/{slice_path}",
        why="a claim writes each of its slices once, and a sealed slice is never rewritten",
        fix="`waterclock retry` makes the batch under a new claim",
    )


def with_columns_of(schema: str, manifests: Iterable[Manifest]) -> str:
    """Return a table's schema with the columns that only its slices have, except the internal column `MISSING`."""
    for manifest in manifests:
        parsed = json.loads(manifest.schema)
        shown = [field for field in parsed["fields"] if field["name"] != MISSING]
        schema = widen_schema(schema, json.dumps(parsed | {"fields": shown})) or schema
    return schema
