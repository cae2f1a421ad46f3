"""Finds the rows of given persons in sealed slices, and seals slices again without them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.files.filesystem import arrow_source, entry_path, make_folder, remove_folder
from waterclock.flow.merge_settings import Merge, Temporal
from waterclock.spark_sql import quote_name
from waterclock.storage.folds.drop_rows import can_copy_without_rows, copy_without_rows
from waterclock.storage.lake import Lake
from waterclock.storage.slices.digest import digest_of_row
from waterclock.storage.slices.manifest import DataFile, Manifest, seal
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.reseal import add_measures, measure_rows
from waterclock.storage.slices.row_filter import INPUT, QUARANTINE, QUARANTINE_DETAILS, ROW
from waterclock.storage.slices.rule_marks import quarantine_digest
from waterclock.storage.slices.statistics import read_files
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTHING = "0:0:0"
_NO_ROWS = pa.array([], pa.int64())


@dataclass(frozen=True, slots=True)
class Persons:
    """The values of persons, as texts, and the columns of a table that contain such values.

    `inputs`: those of its input tables, for quarantined rows of inputs. `earlier`: the persons for slices that were
    made by earlier code of the table, which had other columns.
    """

    columns: Collection[str]
    values: frozenset[str] = field(repr=False)
    inputs: Mapping[str, Collection[str]] = field(default_factory=dict)
    earlier: Mapping[str, Persons] = field(default_factory=dict)

    def of_code(self, code: str) -> Persons:
        """Return the persons with the columns that slices of a code have."""
        return self.earlier.get(code, self)

    def is_in(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return for each value whether it is that of a person. NULL is no person's value."""
        values = self.values
        if pa.types.is_integer(column.type):  # of a time before the subject's columns became texts
            values |= {str(int(value)) for value in values if value.removeprefix("-").isdecimal()}
        return pc.is_in(pc.cast(column, pa.string()), pa.array(sorted(values), pa.string()))


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The positions of persons' rows in the files of a slice, and in those of its quarantined rows, by path."""

    data: Mapping[str, pa.Array] = field(default_factory=dict)
    aside: Mapping[str, pa.Array] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(len(positions) for positions in self.data.values())

    @property
    def aside_rows(self) -> int:
        """The number of quarantined rows."""
        return sum(len(positions) for positions in self.aside.values())

    @property
    def count(self) -> int:
        """The number of all rows."""
        return self.rows + self.aside_rows


def find_rows(folder: str, manifest: Manifest, persons: Persons) -> FoundRows:
    """Return the positions of persons' rows in a slice. Cost: a read of the persons' columns, without Spark."""
    persons = persons.of_code(manifest.code)
    return FoundRows(
        {file.path: _find_in_file(folder, file, persons) for file in manifest.files},
        {file.path: _find_in_quarantine(folder, file, persons) for file in manifest.aside},
    )


def seal_without_rows(  # noqa: PLR0913 - each argument is a part of a slice, of its persons or of its table
    spark: SparkSession,
    folder: str,
    slices: Sequence[tuple[Manifest, FoundRows]],
    claim: int,
    fold: Merge | Temporal | None,
    persons: Persons,
    *,
    complete: Callable[[str], str],
    sort_by: Sequence[str] = (),
) -> list[Manifest]:
    """Seal slices again under a claim, without the rows that `find_rows` found. Return their manifests.

    `complete` is that of `reseal`. Cost: a copy of the slices' files by Arrow, or by Spark if Arrow would write other
    types, and one scan of the copies for each schema among the slices.
    """
    drafts = [_copy(spark, folder, manifest, found, claim, persons, sort_by) for manifest, found in slices]
    measured: dict[str, Mapping[str, Any]] = {}
    for schema in dict.fromkeys(draft.schema for draft in drafts):
        of_schema = [draft for draft in drafts if draft.schema == schema]
        measured |= measure_rows(spark, folder, of_schema, fold, complete)
    made = []
    for draft in drafts:
        row = measured.get(label_of(draft.label))
        digest = digest_of_row(row) if row else _NOTHING
        made.append(replace(add_measures(draft, row or {}, fold), digest=digest))
        seal(folder, made[-1])
    return made


def _find_in_file(folder: str, file: DataFile, persons: Persons) -> pa.Array:
    wanted = {name.lower() for name in persons.columns}
    with pq.ParquetFile(arrow_source(entry_path(folder, file.path), file.size)) as parquet:
        names = [name for name in parquet.schema_arrow.names if name.lower() in wanted]
        rows = parquet.read(columns=names) if names else None
    if rows is None:
        return _NO_ROWS
    marked = reduce(pc.or_, (persons.is_in(rows.column(name)) for name in names))
    return pc.indices_nonzero(marked).cast(pa.int64())


def _find_in_quarantine(folder: str, file: DataFile, persons: Persons) -> pa.Array:
    """Return the positions of persons' quarantined rows: by the typed columns, and by the row as it came, in JSON.

    The JSON may contain the value in another form, such as `042`, or only the raw line.
    """
    typed = set(_find_in_file(folder, file, persons).to_pylist())
    wanted = {table: {name.lower() for name in names} for table, names in persons.inputs.items()}
    wanted[""] = {name.lower() for name in persons.columns}
    with pq.ParquetFile(arrow_source(entry_path(folder, file.path), file.size)) as parquet:
        leaves = {leaf.name for leaf in parquet.schema_arrow.field(QUARANTINE_DETAILS).type} & {ROW, INPUT}
        rows = parquet.read(columns=[f"{QUARANTINE_DETAILS}.{leaf}" for leaf in sorted(leaves)])
    details = rows.column(QUARANTINE_DETAILS)
    texts = pc.struct_field(details, ROW).to_pylist()
    inputs = pc.struct_field(details, INPUT).to_pylist() if INPUT in leaves else [""] * len(texts)
    found = [
        position
        for position, (text, read) in enumerate(zip(texts, inputs, strict=True))
        if position in typed or (text and _is_of_person(json.loads(text), wanted.get(read or "", ()), persons.values))
    ]
    return pa.array(found, pa.int64())


def _is_of_person(row: Any, wanted: Collection[str], values: Collection[str]) -> bool:
    fields = row.items() if isinstance(row, dict) else ()
    return any(
        name.lower() in wanted and isinstance(value, (str, int)) and str(value) in values for name, value in fields
    )


def _copy(
    spark: SparkSession,
    folder: str,
    manifest: Manifest,
    found: FoundRows,
    claim: int,
    persons: Persons,
    sort_by: Sequence[str],
) -> Manifest:
    """Copy a slice's files, and those of its quarantined rows. Return its manifest without digest, not sealed yet."""
    path, root = Lake("").slice_path(manifest.label, claim), entry_path(folder)
    remove_folder(root / path)
    make_folder(root / path)
    if can_copy_without_rows(root, list(found.data)):
        copy_without_rows(root, found.data, path, leaves_no_value=True)
    else:
        kept = frame_of_slices(spark, folder, [manifest])
        names = {name.lower(): name for name in kept.columns}
        for column in persons.of_code(manifest.code).columns:
            if name := names.get(column.lower()):
                is_person = F.col(quote_name(name)).cast("string").isin(sorted(persons.values))
                kept = kept.where(is_person.isNull() | ~is_person)
        kept.write.mode("overwrite").parquet(str(root / path))
    aside: tuple[DataFile, ...] = ()
    if manifest.aside:
        copy_without_rows(root, found.aside, f"{path}/{QUARANTINE}", leaves_no_value=True)
        aside = read_files(root, f"{path}/{QUARANTINE}")
    files = read_files(root, path, also=sort_by)
    if not aside:
        manifest = replace(manifest, aside_schema="", aside_rules=())
    return replace(
        manifest,
        claim=claim,
        slice_path=path,
        files=files,
        rows=sum(file.rows for file in files),
        bytes=sum(file.size for file in files),
        sealed_at=datetime.now(UTC),
        digest=None,
        aside=aside,
        aside_digest=quarantine_digest(folder, aside),
    )
