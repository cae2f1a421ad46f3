"""Some labels of some tables: how many stand in which state, those that ask for a look, and what can be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from waterclock.batches.facts import BEGINNING, FOREVER
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.operations.opening import Reading
from waterclock.operations.proposals import Verb
from waterclock.operations.states import LOUDNESS, QUIET, state_of
from waterclock.operations.words import count_words, local_label, number_words
from waterclock.planner.label_states import LabelState, label_states
from waterclock.planner.plan import Status
from waterclock.selection import Labels
from waterclock.timelabel.label import label_of
from waterclock.ui.asking import Asked, Told, batch_address

_MOST_LISTED = 60
States = Mapping[str, Sequence[LabelState]]


def batches(at: Reading, asked: Asked) -> Told:
    """Return how the labels stand that the address names by `t` and `l`.

    Raises  E512 without labels; E510, E511, E512 and E514 as `selection.select`
    """
    if not asked.labels:
        raise WaterclockError("E512", "no label is said", fix="add &l=2013-01-05, or a range: 2013-01-01..2013-01-05")
    tables, labels = asked.tables(at)
    return several(at, states_of(at, tables, labels), asked.labels)


def states_of(at: Reading, tables: Iterable[Table], labels: Mapping[str, Labels]) -> States:
    """Return by table the states of the due labels that are meant.

    Cost: a question to the ledger, a plan, and some microseconds a label.
    """
    meant = {table.name: labels.get(table.name, Labels()) for table in tables}
    bounds = [(at.flow.tables[name], *meant[name].bounds(at.flow.tables[name].cadence)) for name in meant]
    low = min((low or BEGINNING for _, low, _ in bounds), default=BEGINNING)
    high = max((high or FOREVER for _, _, high in bounds), default=BEGINNING)
    if low >= high:
        return {}
    stored = [] if at.ledger is None else at.ledger.past.grid(list(meant), low, high)
    found = label_states(at.planner, at.snapshot, at.now, stored, (low, high), only=list(meant))
    return {
        table.name: [one for one in found[table.name] if (first or BEGINNING) <= one.label < (end or FOREVER)]
        for table, first, end in bounds
    }


def several(at: Reading, states: States, labels: str) -> Told:
    """Tell how many labels are in which state, and those that are not quiet, the newest first."""
    all_ = [(name, one) for name, of_table in states.items() for one in of_table]
    counts = Counter(state_of(one.status) for _, one in all_)
    loud = [(name, one) for name, one in all_ if state_of(one.status) not in QUIET]
    shown = sorted(loud or all_, key=lambda each: each[1].label, reverse=True)[:_MOST_LISTED]
    names = list(states)
    return {
        "kind": "several",
        "table": names[0] if len(names) == 1 else None,
        "title": names[0] if len(names) == 1 else count_words(len(names), "table"),
        "words": labels.replace("..", " to ") or "all labels",
        "labels": labels,
        "of": len(all_),
        "counts": {str(state): counts[state] for state in sorted(counts, key=LOUDNESS.__getitem__)},
        "shown": [_shown(at, name, one, is_alone=len(names) == 1) for name, one in shown],
        "actions": _actions(states, labels),
    }


def _shown(at: Reading, name: str, one: LabelState, *, is_alone: bool) -> Told:
    words = local_label(one.label, at.flow.tables[name].cadence)
    return {
        "table": name,
        "label": label_of(one.label),
        "words": words if is_alone else f"{name} @ {words}",
        "state": str(state_of(one.status)),
        "reason": one.reason,
        "rows": None if one.stored is None else one.stored.rows,
        "address": batch_address(name, label_of(one.label)),
    }


def _actions(states: States, labels: str) -> list[Told]:
    """Return what can be done with them, each for those tables alone that have batches of the kind."""
    actions = []
    for verb, word, is_meant in _OFFERED:
        found = {name: sum(map(is_meant, of_table)) for name, of_table in states.items()}
        if verb is Verb.BACKFILL and not any(_would_help(one) for of_table in states.values() for one in of_table):
            continue
        if count := sum(found.values()):
            tables = " ".join(f"`{name}`" for name, of_table in found.items() if of_table)
            actions.append({"verb": verb.value, "words": f"{word} {number_words(count)}…", "t": tables, "l": labels})
    return actions


def _has_failed(one: LabelState) -> bool:
    return one.status in {Status.FAILED, Status.HELD}


def _can_be_made(one: LabelState) -> bool:
    return one.status in {Status.READY, Status.WAITING, Status.BLOCKED, Status.NOT_NEEDED} and not is_done(one)


def _would_help(one: LabelState) -> bool:
    """Tell whether asking makes a difference: what waits or is blocked is made in its turn."""
    return one.status in {Status.READY, Status.NOT_NEEDED} and not is_done(one)


def is_done(one: LabelState) -> bool:
    """Tell whether there are rows of the batch, whatever is to become of them."""
    return one.stored is not None and one.stored.current_claim is not None


_OFFERED: Sequence[tuple[Verb, str, Callable[[LabelState], bool]]] = (
    (Verb.RETRY, "Retry", _has_failed),
    (Verb.BACKFILL, "Make", _can_be_made),
    (Verb.RECOMPUTE, "Recompute", is_done),
)
