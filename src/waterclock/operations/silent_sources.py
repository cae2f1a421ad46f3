"""Finds collects whose sources have delivered nothing for unusually long, by the rows of their labels.

The usual gaps are learned from the history. Labels are grouped into slots: hours or days of the week, or hours of the
day, as far as the history allows. An empty label in a slot that is mostly empty, such as Sundays, is not reported.
Labels count with their current rows, so that late rows, restatements and joined files do not mislead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from waterclock.batches.progress_records import LabelRows
from waterclock.flow.checks import has_row_actions
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind
from waterclock.flow.seasonal_baseline import LEAST_SEASONS, SATURDAY, slot_clock
from waterclock.operations.formatting import count_words, local_range
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import TimeUnit

if TYPE_CHECKING:
    from waterclock.ledger.sections.past import PastSection
    from waterclock.operations.project_opening import OpenedProject

MOST = 1500
"""The number of a table's newest labels in its history: two weeks of quarters of an hour, two months of hours."""
LEAST = 10  # the minimum of labels with rows in a history
_LEAST_DAYS = 3  # the minimum of days in each slot
_OUTAGE = 3  # labels in a row, from which a past silence may be an outage
_SURPRISE = 0.02  # the highest probability of an empty stretch by chance that is reported

Slot = Callable[[datetime], Hashable]


@dataclass(frozen=True, slots=True)
class Silence:
    """A collect whose newest labels have been empty for longer than usual.

    `since`: the first of them, `last` the newest. `labels`: their number; `expected` of them are usually not empty.
    `rows_to`: the newest label that has rows.
    """

    table: str
    since: datetime
    last: datetime
    labels: int
    expected: int
    rows_to: datetime

    def to_json(self) -> dict[str, Any]:
        """Return the silence as a dictionary for JSON."""
        from waterclock.json_models.timeliness import CollectSilence

        return CollectSilence.model_validate(self).to_json()


@dataclass(frozen=True, slots=True)
class SilentCollects:
    """The collects of a flow whose sources have delivered nothing for unusually long."""

    flow: Flow
    found: tuple[Silence, ...] = ()


NO_SILENCE = SilentCollects(Flow(project="", tables={}))


def find_silent_collects(at: OpenedProject, names: Collection[str]) -> SilentCollects:
    """Find the collects among `names` whose sources have delivered nothing for unusually long."""
    return NO_SILENCE if at.ledger is None else SilentCollects(at.flow, silences(at.flow, at.ledger.past, names))


def silences(flow: Flow, past: PastSection, names: Collection[str]) -> tuple[Silence, ...]:
    """Return the given collects whose sources have delivered nothing for unusually long.

    Only collects are checked, because the rows of other tables depend on them. Labels whose rows were all dropped by
    rules are no silence.
    Cost: one query of the ledger, a second one for the history of those whose newest label is empty, and one for each
    that would be returned and has a rule that removes rows.
    """
    collects = [name for name in names if flow.tables[name].kind is Kind.COLLECT]
    empty = past.empty_at_last(collects) if collects else frozenset()
    if not empty:
        return ()
    history = past.newest_rows(sorted(empty), MOST)
    found = (silence_of(flow.tables[name], history.get(name, ())) for name in collects if name in empty)
    return tuple(each for each in found if each is not None and not _has_dropped_rows(flow, past, each))


def _has_dropped_rows(flow: Flow, past: PastSection, silence: Silence) -> bool:
    if not has_row_actions(flow.tables[silence.table]):
        return False
    counted = past.newest_counted(silence.table, silence.labels)
    return any(each.measures.get("dropped") for each in counted)


def silence_of(table: Table, labels: Sequence[LabelRows]) -> Silence | None:
    """Return the silence of a table if its newest labels, given oldest first, are empty for unusually long; pure.

    That is the case if more labels that usually have rows are empty than ever before, and if that is unlikely by
    chance. For labels shorter than a day at least two must be empty. For an irregular source, all labels count.
    """
    end = next((at for at in range(len(labels) - 1, -1, -1) if labels[at].rows), -1)
    history, tail = labels[: end + 1], labels[end + 1 :]
    if not tail or not _is_history_sufficient(table.cadence, history):
        return None
    is_expected = _learn_usual_labels(table.cadence, history)
    known = [bool(each.rows) for each in history if is_expected(each.label)]
    expected = sum(1 for each in tail if is_expected(each.label))
    chance = 1 - (sum(known) + 0.5) / (len(known) + 1)
    least = 2 if table.cadence.period.unit is TimeUnit.MINUTE else 1
    if expected < least or expected <= _longest_usual_gap(known) or chance**expected > _SURPRISE:
        return None
    return Silence(table.name, tail[0].label, tail[-1].label, len(tail), expected, history[-1].label)


def _is_history_sufficient(cadence: Cadence, history: Sequence[LabelRows]) -> bool:
    """Return whether the history is sufficient: labels with rows, and for windows up to a day two whole weeks."""
    if not history or sum(1 for each in history if each.rows) < LEAST:
        return False
    has_weeks = cadence.period.unit in {TimeUnit.MINUTE, TimeUnit.DAY}
    return not has_weeks or history[-1].label - history[0].label >= LEAST_SEASONS


def _longest_usual_gap(known: Sequence[bool]) -> int:
    """Return the longest run of empty labels in the history, without a single outage that would hide new silences."""
    runs = sorted((len(list(run)) for has_rows, run in groupby(known) if not has_rows), reverse=True)
    longest, second = [*runs, 0, 0][:2]
    return second if longest >= _OUTAGE and longest > 2 * second else longest


def _learn_usual_labels(cadence: Cadence, history: Sequence[LabelRows]) -> Callable[[datetime], bool]:
    """Return a predicate for labels that are usually not empty, by the finest slots with enough history."""
    newest = history[-1].label
    zone = slot_clock(cadence.zone, cadence.next(newest) - newest, newest)
    labels = [(each.label.astimezone(zone), bool(each.rows)) for each in history]
    for slot in _slots(cadence):
        days = Counter(each for each, _ in {(slot(at), at.date()) for at, _ in labels})
        if min(days.values()) < _LEAST_DAYS:
            continue
        of = Counter(slot(at) for at, _ in labels)
        full = Counter(slot(at) for at, has_rows in labels if has_rows)
        usual = frozenset(each for each in of if full[each] * 2 > of[each])
        if sum(full[each] for each in usual) * 2 > sum(full.values()):
            return partial(_is_usual_label, slot, usual, zone)
    return lambda _: True


def _is_usual_label(slot: Slot, usual: Collection[Hashable], zone: tzinfo, label: datetime) -> bool:
    return slot(label.astimezone(zone)) in usual


def _slots(cadence: Cadence) -> tuple[Slot, ...]:
    """Return the functions that assign labels to slots by their local clock, finest first."""
    unit = cadence.period.unit
    if unit is TimeUnit.DAY:
        return (datetime.weekday,)
    if unit is not TimeUnit.MINUTE:
        return ()
    return (
        lambda at: (at.weekday(), at.hour),
        lambda at: (at.weekday() >= SATURDAY, at.hour),
        lambda at: at.hour,
    )


def silence_words(silence: Silence, flow: Flow) -> str:
    """Describe since when nothing was delivered."""
    table = flow.tables[silence.table]
    source = "" if table.source is None else f" from {table.source.unit.connection}"
    spans = local_range(silence.since, silence.last, table.cadence)
    return (
        f"no rows arrived{source} for {spans} ({count_words(silence.labels, 'label')}), although rows usually "
        "arrive then"
    )
