"""Defines schema versions: the columns of a source, as it delivered them, and the columns of a table. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from waterclock.flow.schema_changes import SchemaChange, change_between

SCHEMA = "schema"  # the key in a batch's source notes for the delivered columns, if they are new


class Side(StrEnum):
    """Whose columns a schema version has: those of the collected source, or those of the table."""

    SOURCE = "source"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A set of columns with their types. `claim` first delivered it, `label` is the first label that has it.

    The versions of a table's `side` are numbered from 1, in the order in which batches were recorded.
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


def version_in_effect(versions: Iterable[SchemaVersion], side: Side, label: datetime) -> SchemaVersion | None:
    """Return the version in effect at a label: the last one that was added with that label or an earlier one."""
    known = [each for each in versions if each.side is side and each.label <= label]
    return max(known, key=lambda each: (each.label, each.number), default=None)


def find_matching_version(
    versions: Sequence[SchemaVersion], side: Side, label: datetime, columns: Mapping[str, str]
) -> SchemaVersion | None:
    """Return the version with these columns: the one in effect at the label, or the newest.

    Return None for new columns. So a backfill of old labels records no change, whether its source returns old columns
    for old rows or new ones.
    """
    for each in (newest_of(versions, side), version_in_effect(versions, side, label)):
        if each is not None and not change_between(each.columns, columns):
            return each
    return None


def change_at(
    versions: Sequence[SchemaVersion], side: Side, label: datetime, columns: Mapping[str, str]
) -> SchemaChange | None:
    """Return how columns differ from the version in effect at a label. None if there is no version yet."""
    before = version_in_effect(versions, side, label) or newest_of(versions, side)
    return None if before is None else change_between(before.columns, columns)


def changes_of(versions: Sequence[SchemaVersion]) -> list[tuple[SchemaVersion, SchemaChange | None]]:
    """Return each version of one side, oldest first, with its difference to the previous one (None for the first)."""
    ordered = sorted(versions, key=lambda each: each.number)
    before: list[SchemaVersion | None] = [None, *ordered]
    return [
        (each, None if old is None else change_between(old.columns, each.columns))
        for old, each in zip(before, ordered, strict=False)
    ]
