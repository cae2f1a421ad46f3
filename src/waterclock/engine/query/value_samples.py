"""Searches a sample of a table's stored values for personal data. No value leaves this module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, DataType, DecimalType, IntegralType, MapType, StringType, StructType

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.engine.damage import reporting_damage
from waterclock.engine.run_context import RunContext
from waterclock.personal_data.patterns import MOST_CHARACTERS, ValueMatch, match_values
from waterclock.storage.fetched_rows import rows_of
from waterclock.storage.slices.inventory import sealed_newest_first
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NEWEST = 20  # the number of newest labels to search for one with rows


@dataclass(frozen=True, slots=True)
class SampledValues:
    """The result of a sample: its label, the number of rows, and the matches by column (`address.street` in structs).

    `counts`: the number of values that are not NULL, by column. Columns of unsuitable types are left out of both.
    """

    label: datetime
    rows: int
    counts: Mapping[str, int] = field(default_factory=dict)
    matches: Mapping[str, list[ValueMatch]] = field(default_factory=dict)


@reporting_damage
def sample_values(work: RunContext, table: str, rows: int) -> SampledValues | None:
    """Search at most `rows` rows of the newest slice of a table; None if its newest labels have no rows.

    Cost: one Spark job for all columns of the table. At most MOST_CHARACTERS characters of a value are fetched.
    """
    folder = work.lake.folder(table)
    manifest = _newest_with_rows(_known_slices(work, table) if work.project.bases else _stored_slices(folder), folder)
    if manifest is None:
        return None
    frame = frame_of_slices(work.sessions.own(), folder, [manifest])
    columns = dict(_text_columns(frame, frame.schema))
    if not columns:
        return SampledValues(manifest.label, 0)
    found = rows_of(frame.select(*(column.alias(name) for name, column in columns.items())), rows)
    values = {name: [row[at] for row in found if row[at] is not None] for at, name in enumerate(columns)}
    return SampledValues(
        manifest.label,
        len(found),
        {name: len(of_column) for name, of_column in values.items()},
        {name: matches for name, of_column in values.items() if (matches := match_values(of_column))},
    )


def _stored_slices(folder: str) -> Iterator[str]:
    return (leaf.path for leaf in sealed_newest_first(folder))


def _known_slices(work: RunContext, table: str) -> Iterator[str]:
    """Yield the current slices of a branch's table, newest first: the stage may have newer ones of its base."""
    known = work.ledger.reads.slices(table, BEGINNING, FOREVER)
    return (piece.slice_path for piece in reversed(known) if piece.slice_path)


def _newest_with_rows(paths: Iterator[str], folder: str) -> Manifest | None:
    for path in islice(paths, _NEWEST):
        manifest = read_manifest(folder, path)
        if manifest.rows:
            return manifest
    return None


def _text_columns(frame: DataFrame, kind: StructType, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Column]]:
    """Yield the columns, and the fields of structs, that may contain personal data, as texts."""
    for each in kind.fields:
        names = (*path, each.name)
        column = sql.col(".".join(f"`{name.replace('`', '``')}`" for name in names))
        if isinstance(each.dataType, StructType):
            yield from _text_columns(frame, each.dataType, names)
        elif names != (TIMELABEL,) and (text := _as_text(column, each.dataType)) is not None:
            yield ".".join(names), sql.substring(text, 1, MOST_CHARACTERS)


def _as_text(column: Column, kind: DataType) -> Column | None:
    if isinstance(kind, StringType):
        return column
    if isinstance(kind, IntegralType) or (isinstance(kind, DecimalType) and kind.scale == 0):
        return column.cast("string")
    return sql.to_json(column) if isinstance(kind, ArrayType | MapType) else None
