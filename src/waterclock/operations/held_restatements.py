"""Restatements that a limit holds (ON RESTATE ... AT MOST): their cost, and the labels to release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from waterclock.operations.formatting import count_words, local_range, seconds_words
from waterclock.operations.project_opening import OpenedProject
from waterclock.planner.estimate import Estimate, cost_of
from waterclock.planner.held_restatement import HeldRestatement
from waterclock.planner.plan import Plan
from waterclock.selection import Labels
from waterclock.timelabel.cadence import Cadence

_MOST_NAMED = 3
RELEASE_OF_RESTATEMENT = "restatement"
"""The command with which the ledger records the release of labels that a limit held: `restatement requested`."""


@dataclass(frozen=True, slots=True)
class RestatementCost:
    """A held restatement of a table, and its cost.

    `rows`: the rows that its labels have now. `cost`: the time to make them, by earlier batches. `following`: the cost
    of the batches of other tables that may have to be made again after them.
    """

    table: str
    held: HeldRestatement
    rows: int
    cost: Estimate
    following: Estimate
    cadence: Cadence

    def lines(self) -> list[str]:
        """Return the held labels and the reason, their cost, and the commands to continue, each as a line."""
        return [held_words(self.table, self.held, self.cadence), f"cost: {cost_words(self)}", commands_of(self)]

    def to_dict(self) -> dict[str, Any]:
        """Return the held restatement with its cost as a dictionary for JSON."""
        return {
            **self.held.to_dict(),
            "rows": self.rows,
            "seconds": _known_seconds(self.cost),
            "following": {name: cost.batches for name, cost in self.following.tables.items()},
            "following_seconds": _known_seconds(self.following),
        }


def cost_of_held(at: OpenedProject, plan: Plan) -> dict[str, RestatementCost]:
    """Map each table with held labels in a plan to their cost. Cost: one query for each of these tables."""
    return {name: cost_of_restatement(at, name, held) for name, held in plan.held_restatements.items()}


def select_held(at: OpenedProject, name: str, selected: Labels | None) -> HeldRestatement | None:
    """Return the held restatement of a table, or its part with the selected labels. None if there is none.

    A batch that a rule holds or that failed is left out: it waits for a decision of its own.
    """
    held = at.planner.find_held_restatements(at.snapshot, at.now).get(name)
    if held is None:
        return None
    cadence, troubles = at.flow.tables[name].cadence, at.snapshot.of(name).troubles
    is_selected = (label for label in held.labels if selected is None or selected.contains(label, cadence))
    labels = frozenset(label for label in is_selected if label not in troubles)
    return replace(held, labels=labels, changed=held.changed & labels) if labels else None


def held_words(name: str, held: HeldRestatement, cadence: Cadence) -> str:
    """Return the held labels of a table, and the reason why they are held."""
    labels = sorted(held.labels)
    span = local_range(labels[0], labels[-1], cadence)
    return f"{name}: {count_words(len(labels), 'label')} held ({span}): {held.reason}"


def cost_words(found: RestatementCost) -> str:
    """Format the cost of a held restatement: rows, time, and the batches that may follow."""
    text = f"{count_words(found.rows, 'row')} now, {_time_words(found.cost)}"
    following = found.following
    if not following.batches:
        return text
    names = list(following.tables)
    others = f" and {count_words(len(names) - _MOST_NAMED, 'other table')}" if len(names) > _MOST_NAMED else ""
    count = count_words(following.batches, "batch", "batches")
    return f"{text}; then up to {count} of {', '.join(names[:_MOST_NAMED])}{others}, {_time_words(following)}"


def commands_of(found: RestatementCost) -> str:
    """Return the commands that continue a held restatement."""
    if found.held.is_of_run:
        return "`waterclock run` without --at-most makes them again"
    return f"`waterclock release {found.table} --why '…'` makes them again"


def cost_of_restatement(at: OpenedProject, name: str, held: HeldRestatement) -> RestatementCost:
    """Return the cost of making the held labels of a table again. Cost: one query."""
    labels = held.labels
    low, high = min(labels), at.flow.tables[name].cadence.next(max(labels))
    cells = [] if at.ledger is None else at.ledger.past.grid([name], low, high)
    ripple = at.planner.ripple(at.snapshot, at.now, {name: labels})
    following = {other: len(windows) for other, windows in ripple.following.items() if other != name}
    return RestatementCost(
        name,
        held,
        sum(cell.rows or 0 for cell in cells if cell.label in labels),
        cost_of({name: len(labels)}, at.snapshot),
        cost_of(following, at.snapshot),
        at.flow.tables[name].cadence,
    )


def _known_seconds(cost: Estimate) -> float | None:
    return None if cost.unknown else round(cost.seconds, 3)


def _time_words(cost: Estimate) -> str:
    return "time not known" if cost.unknown else f"{seconds_words(cost.seconds)} of work"
