"""Versions of the columns that a source had as it was collected, and that a table has. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from waterclock.flow.schema_changes import SchemaChange, change_between

SCHEMA = "schema"  # under which a batch's source notes the columns that it brought, where they are new


class Side(StrEnum):
    """Whose columns a version is: those of what was collected, or the table's own."""

    SOURCE = "source"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """Columns with their types, as the batch of a claim first brought them; `label` is the first it brought them for.

    Numbers of a table's side rise from 1, in the order in which batches were recorded.
    """

    side: Side
    number: int
    label: datetime
    claim: int
    columns: Mapping[str, str]
    at: datetime


def newest_of(versions: Iterable[SchemaVersion], side: Side) -> SchemaVersion | None:
    """Return the version of a side that was recorded last."""
    return max((each for each in versions if each.side is side), key=lambda each: each.number, default=None)


def in_force(versions: Iterable[SchemaVersion], side: Side, label: datetime) -> SchemaVersion | None:
    """Return the version that held at a label: the last one of those that came with it or with labels before it."""
    known = [each for each in versions if each.side is side and each.label <= label]
    return max(known, key=lambda each: (each.label, each.number), default=None)


def known_as(
    versions: Sequence[SchemaVersion], side: Side, label: datetime, columns: Mapping[str, str]
) -> SchemaVersion | None:
    """Return the version that columns are: what the label had, or what the last batch brought; None if they are new.

    So a backfill of old labels notices nothing, whether its source keeps old columns with old rows or has new ones.
    """
    for each in (newest_of(versions, side), in_force(versions, side, label)):
        if each is not None and not change_between(each.columns, columns):
            return each
    return None


def change_at(
    versions: Sequence[SchemaVersion], side: Side, label: datetime, columns: Mapping[str, str]
) -> SchemaChange | None:
    """Say how columns differ from the version that holds at a label; None for the first that there are."""
    before = in_force(versions, side, label) or newest_of(versions, side)
    return None if before is None else change_between(before.columns, columns)


def changes_of(versions: Sequence[SchemaVersion]) -> list[tuple[SchemaVersion, SchemaChange | None]]:
    """Return each version of one side, oldest first, with how it differs from the one before; None for the first."""
    ordered = sorted(versions, key=lambda each: each.number)
    before: list[SchemaVersion | None] = [None, *ordered]
    return [
        (each, None if old is None else change_between(old.columns, each.columns))
        for old, each in zip(before, ordered, strict=False)
    ]
