"""Defines offline measurements of a table: when they are due, when they ran, and their results by label and span."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.flow.measures import MeasuredValue
from waterclock.timelabel.cadence import Cadence

NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class OfflineRun:
    """The newest offline measurement of a table: its time, the declaration it used, and its outcome.

    `code` is the declaration's hash, `looked_at` the run's `now`. `labels` is how many labels it measured, `error` why
    it failed. `taken_until` is set while a runner is measuring.
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
    """Identifies the measured version of a label: the claim that made its rows, and the hash of the declaration.

    `has_states`: partial aggregates are stored.
    """

    claim: int
    code: str
    has_states: bool


@dataclass(frozen=True, slots=True)
class LabelMeasures:
    """The measurements of a label's rows, as made by `claim`. `states`: partial aggregates to merge into spans."""

    label: datetime
    claim: int
    found: Mapping[str, MeasuredValue]
    states: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SpanMeasures:
    """The merged measurements of the labels in a span `[low, high)`. `labels` is their number."""

    low: datetime
    high: datetime
    labels: int
    found: Mapping[str, MeasuredValue]


def cadence_of(table: Table) -> Cadence:
    """Return the cadence of a table's offline measurements: each of its windows is a span."""
    if table.offline is None:
        raise AssertionError(f"{table.name} measures nothing offline, and its caller did not ask")
    return Cadence(table.offline.period, zone=table.cadence.zone)


def has_spans(table: Table) -> bool:
    """Return whether the measures of a span are merged from the measures of several labels.

    This requires that each label has rows of its own.
    """
    is_several = table.offline is not None and cadence_of(table).period != table.cadence.period
    return is_several and table.mode is not Mode.REPLACE and not table.is_snapshot


def next_measurement_time(table: Table, last_run: OfflineRun | None) -> datetime:
    """Return the instant from which a table is to be measured again. `NEVER` if a measurement is due at once.

    `last_run` is its newest measurement.
    """
    if table.offline is None or last_run is None or last_run.looked_at == NEVER or last_run.code != table.offline.code:
        return NEVER
    return cadence_of(table).next(cadence_of(table).floor(last_run.looked_at))


def is_due(table: Table, last_run: OfflineRun | None, now: datetime) -> bool:
    """Return whether an offline measurement of a table is due, also if the clock was set back since `last_run`."""
    if table.offline is None:
        return False
    is_of_later_span = last_run is not None and cadence_of(table).floor(last_run.looked_at) > now
    return is_of_later_span or next_measurement_time(table, last_run) <= now


def to_measure(
    table: Table, current: Mapping[datetime, int], kept: Mapping[datetime, KeptLabel], most: int
) -> list[datetime]:
    """Return the labels to measure, newest first: those whose current rows have not been measured yet.

    `current` maps labels to their current claims, `kept` to their measurements. The result has at most `most` labels,
    plus labels of the same spans whose partial aggregates can no longer be merged.
    """
    code = table.offline.code if table.offline else ""
    known = {label for label, it in kept.items() if (it.claim, it.code) == (current.get(label), code)}
    found = sorted((label for label in current if label not in known), reverse=True)[:most]
    if not has_spans(table):
        return found
    spans, grid = spans_of(table, found), cadence_of(table)
    without_states = (label for label in known if grid.floor(label) in spans and not kept[label].has_states)
    return [*found, *sorted(without_states, reverse=True)]


def spans_of(table: Table, labels: Iterable[datetime]) -> set[datetime]:
    """Return the starts of the spans that contain the labels."""
    return set(map(cadence_of(table).floor, labels))
