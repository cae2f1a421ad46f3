"""What a job of its own measures of a table: when it looked, what it found of each label, and of spans of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Table
from waterclock.flow.measures import Measured
from waterclock.timelabel.cadence import Cadence

NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Look:
    """The newest look at a table: as of when, under which declaration, and what came of it.

    `labels`: how many it measured; `error`: why it could not. `taken_until`: while somebody is at it.
    """

    code: str
    looked_at: datetime
    at: datetime
    labels: int
    seconds: float
    error: str | None = None
    taken_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class KeptLabel:
    """Of which claim's rows, and under which declaration, a label was measured; whether it can still be merged."""

    claim: int
    code: str
    has_states: bool


@dataclass(frozen=True, slots=True)
class LabelFound:
    """What was measured of a label as a claim showed it, and the states that spans are put together of."""

    label: datetime
    claim: int
    found: Mapping[str, Measured]
    states: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SpanFound:
    """What all labels in `[low, high)` come to together, as far as `labels` of them were there."""

    low: datetime
    high: datetime
    labels: int
    found: Mapping[str, Measured]


def cadence_of(table: Table) -> Cadence:
    """Return the grid on which a table is measured offline: each of its windows is a span."""
    if table.offline is None:
        raise AssertionError(f"{table.name} measures nothing offline, and its caller did not ask")
    return Cadence(table.offline.period, zone=table.cadence.zone)


def merges(table: Table) -> bool:
    """Tell whether labels are put together: where a span has several, and each holds rows of its own."""
    is_several = table.offline is not None and cadence_of(table).period != table.cadence.period
    return is_several and table.mode is not Mode.REPLACE and not table.is_snapshot


def next_look(table: Table, look: Look | None) -> datetime:
    """Return the instant from which a table is to be measured again; `NEVER` where it is to be at once."""
    if table.offline is None or look is None or look.looked_at == NEVER or look.code != table.offline.code:
        return NEVER
    return cadence_of(table).next(cadence_of(table).floor(look.looked_at))


def is_due(table: Table, look: Look | None, now: datetime) -> bool:
    """Tell whether a table is to be measured."""
    return table.offline is not None and next_look(table, look) <= now


def to_measure(
    table: Table, current: Mapping[datetime, int], kept: Mapping[datetime, KeptLabel], most: int
) -> list[datetime]:
    """Return the labels to measure, newest first: those of which the rows that are shown were not measured yet.

    `current` are the claims that are shown. Beside at most so many come those of their spans that cannot be merged any
    more.
    """
    code = table.offline.code if table.offline else ""
    known = {label for label, it in kept.items() if (it.claim, it.code) == (current.get(label), code)}
    found = sorted((label for label in current if label not in known), reverse=True)[:most]
    if not merges(table):
        return found
    spans, grid = spans_of(table, found), cadence_of(table)
    beside = (label for label in known if grid.floor(label) in spans and not kept[label].has_states)
    return [*found, *sorted(beside, reverse=True)]


def spans_of(table: Table, labels: Iterable[datetime]) -> set[datetime]:
    """Return where the spans begin that labels lie in."""
    return set(map(cadence_of(table).floor, labels))
