"""Decides to which revision a label can be reverted, and why it cannot. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from waterclock.batches.earlier_revisions import EarlierRevision, input_identities
from waterclock.batches.records import Input
from waterclock.flow.declarations import Table
from waterclock.flow.enums import LINKED, Kind
from waterclock.timelabel.label import label_of

PREVIOUS = "previous"
"""The name of the revision before the current one."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a label cannot be reverted, and what to do instead."""

    why: str
    fix: str


def usable_revisions(
    made: Sequence[EarlierRevision], emptying_versions: Mapping[int, datetime]
) -> tuple[EarlierRevision, ...]:
    """Return the revisions since the table was last emptied by a reset, or cut into other windows. Order is kept."""
    since = max(emptying_versions, default=-1)
    return tuple(each for each in made if each.version >= since)


def choose_revision(
    made: Sequence[EarlierRevision], *, to: int | str | None = None, known_at: datetime | None = None
) -> EarlierRevision | None:
    """Return the revision of claim `to`, the one before the current one (PREVIOUS), or the one current at an instant.

    `made` are the revisions of a label, oldest first. None if there is no such revision.
    """
    if to == PREVIOUS:
        before = [each for each, after in pairwise(made) if after.is_current]
        return before[0] if before else None
    if known_at is not None:
        return next((each for each in reversed(made) if each.recorded_at <= known_at), None)
    return next((each for each in made if each.claim == to), None)


def choose_paired_revision(fitting: Sequence[EarlierRevision], of: EarlierRevision) -> EarlierRevision:
    """Return the revision for the other table of APART, among those that the query of `of` made.

    One that read the same rows as `of` is preferred, then the current one, then the newest. `of` may have read more
    tables, those of its rules and keys.
    """
    read = input_identities(of.inputs)
    return max(
        fitting,
        key=lambda each: (all(it in read for it in input_identities(each.inputs)), each.is_current, each.version),
    )


def find_table_refusal(table: Table) -> Refusal | None:
    """Return why no label of a table can be reverted, or None."""
    if table.kind is Kind.PUBLISH:
        read = table.reads[0].table
        return Refusal(
            "a publish sends rows to a destination, which has no earlier revisions",
            f"revert {read}: the next run delivers its rows",
        )
    if table.source is not None and table.source.batching in LINKED:
        return Refusal(
            "its rows are those of another project, and the next run would collect these again",
            "revert the table in its own project",
        )
    if table.late_rows is not None or table.open_of is not None:
        return Refusal(
            "its rows depend on when windows were closed, not only on its inputs",
            f"`waterclock recompute {table.name}@LABEL` makes a label again",
        )
    return None


def find_revision_refusal(
    table: Table, target: EarlierRevision, current: EarlierRevision, reads: Sequence[Input]
) -> Refusal | None:
    """Return why a label cannot become a revision again, or None. `reads` are the inputs that it would read now."""
    where = f"{table.name}@{label_of(target.label)}"
    if target.stands_from != current.stands_from:
        return Refusal(
            f"revision {target.claim} stands for another period than the current one",
            f"`waterclock recollect {where}` reads the source again, where it still has the rows",
        )
    if _items_of(target.source) != _items_of(current.source):
        return Refusal(
            f"revision {target.claim} contains other items of its source than the current one",
            f"`waterclock recompute {where}` reads its archived items again",
        )
    if differing := differing_input(target.inputs, reads):
        return Refusal(
            f"{differing} has other rows than revision {target.claim} read",
            f"revert {differing} first: its readers then take their revisions back; or `waterclock recompute {where}`",
        )
    return None


def differing_input(read: Sequence[Input], now: Sequence[Input]) -> str | None:
    """Return the first table of which a revision read other rows than a batch would read now. None if all are equal."""
    if input_identities(read) == input_identities(now):
        return None
    known = input_identities(read)
    changed = (it.table for it, own in zip(now, input_identities(now), strict=True) if own not in known)
    gone = (it.table for it in read)
    return next(changed, None) or next(gone, None)


def _items_of(source: Mapping[str, Any]) -> list[str]:
    """Return the names of the files or ranges of a log that a batch owns, from its source notes."""
    return sorted(str(item["name"]) for item in source.get("items", ()))
