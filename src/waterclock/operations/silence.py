"""Finds collects whose sources have brought nothing for unusually long, by the rows of their labels.

What is usual is told by what came before. Labels fall into slots: hours of the week, days of the week, hours of the day,
as far as the history goes; a slot in which mostly nothing comes, as on Sundays, says nothing when it is empty. Labels
count with the rows that they hold now, so that late rows, restatements and joined files fool nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from waterclock.batches.progress import LabelRows
from waterclock.flow.choices import Kind
from waterclock.flow.declarations import Flow, Table
from waterclock.operations.json import instant_text
from waterclock.operations.words import count_words, local_range
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.label import label_of
from waterclock.timelabel.period import TimeUnit
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    from waterclock.ledger.ledger import Past

MOST = 1500
"""So many of a table's newest labels are its history: two weeks of quarters of an hour, two months of hours."""
LEAST = 10  # labels with rows, before which nothing is usual
_SEASONS = 3  # labels of each slot, before which the slot says nothing
_SURPRISE = 0.02  # how likely an empty stretch may be, by chance, that is told

Slot = Callable[[datetime], Hashable]


@dataclass(frozen=True, slots=True)
class Silence:
    """A collect whose newest labels are empty, for longer than is usual.

    `since`: the first of them, `last` the newest; `labels`: how many there are, of which in `expected` something mostly
    comes. `rows_to`: the newest label that has rows.
    """

    table: str
    since: datetime
    last: datetime
    labels: int
    expected: int
    rows_to: datetime

    def to_json(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            "table": self.table,
            "since": label_of(self.since),
            "labels": self.labels,
            "expected": self.expected,
            "rows_to": label_of(self.rows_to),
            "since_instant": instant_text(self.since),
        }


def silences(flow: Flow, past: Past, names: Collection[str]) -> tuple[Silence, ...]:
    """Return those of some tables that are collected and have brought nothing for unusually long.

    Only these are looked at: what is made of them has its rows, or none, from them.
    Cost: one question to the ledger, and a second about the history of those whose newest label is empty.
    """
    meant = [name for name in names if flow.tables[name].kind is Kind.COLLECT]
    empty = past.empty_at_last(meant) if meant else frozenset()
    if not empty:
        return ()
    history = past.newest_rows(sorted(empty), MOST)
    found = (silence_of(flow.tables[name], history.get(name, ())) for name in meant if name in empty)
    return tuple(each for each in found if each is not None)


def silence_of(table: Table, labels: Sequence[LabelRows]) -> Silence | None:
    """Tell whether the newest of a table's labels, which are given oldest first, are empty for unusually long; pure.

    So it is where more labels are empty in which something mostly comes than ever before, and by chance that would
    hardly be. Of a source that brings something now and then, all labels count.
    """
    end = max((at for at, each in enumerate(labels) if each.rows), default=-1)
    history, tail = labels[: end + 1], labels[end + 1 :]
    if not tail or sum(1 for each in history if each.rows) < LEAST:
        return None
    is_expected = _expected(table.cadence, history)
    known = [bool(each.rows) for each in history if is_expected(each.label)]
    expected = sum(1 for each in tail if is_expected(each.label))
    longest = max((len(list(run)) for has_rows, run in groupby(known) if not has_rows), default=0)
    chance = 1 - (sum(known) + 0.5) / (len(known) + 1)
    if expected <= longest or chance**expected > _SURPRISE:
        return None
    return Silence(table.name, tail[0].label, tail[-1].label, len(tail), expected, history[-1].label)


def _expected(cadence: Cadence, history: Sequence[LabelRows]) -> Callable[[datetime], bool]:
    """Return what tells whether something mostly comes in a label, by the finest slots of which history tells enough."""
    for slot in _slots(cadence):
        of = Counter(slot(each.label) for each in history)
        if min(of.values()) < _SEASONS or not _is_whole(slot, history):
            continue
        full = Counter(slot(each.label) for each in history if each.rows)
        usual = frozenset(each for each in of if full[each] * 2 > of[each])
        if sum(full[each] for each in usual) * 2 > sum(full.values()):
            return lambda label, slot=slot, usual=usual: slot(label) in usual  # type: ignore[misc]
    return lambda _: True


def _is_whole(slot: Slot, history: Sequence[LabelRows]) -> bool:
    """Tell whether history goes round all slots: what follows its end fell into its slots before."""
    return slot(history[0].label) in {slot(each.label) for each in history[1:]}


def _slots(cadence: Cadence) -> tuple[Slot, ...]:
    """Return the ways to put labels into slots, the finest first, by the clock of their zone."""
    zone = nominal_zone(cadence.zone)
    unit = cadence.period.unit
    if unit is TimeUnit.DAY:
        return (lambda at: at.astimezone(zone).weekday(),)
    if unit is not TimeUnit.MINUTE:
        return ()
    return (
        lambda at: (at.astimezone(zone).weekday(), at.astimezone(zone).hour),
        lambda at: (at.astimezone(zone).weekday() > 4, at.astimezone(zone).hour),
        lambda at: at.astimezone(zone).hour,
    )


def silence_words(silence: Silence, flow: Flow) -> str:
    """Say since when nothing came."""
    table = flow.tables[silence.table]
    source = "" if table.source is None else f" from {table.source.unit.connection}"
    spans = local_range(silence.since, silence.last, table.cadence)
    return f"nothing came{source} for {spans} ({count_words(silence.labels, 'label')}), where something usually does"
