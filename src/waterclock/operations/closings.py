"""Tells where the books of windows are closed and why, how far open ones were looked at, and what closes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.batches.facts import Closing
from waterclock.flow.declarations import Flow, Table
from waterclock.operations.json import instant_text
from waterclock.operations.words import count_words, instant_words
from waterclock.planner.closings import closed_words, part_words
from waterclock.planner.plan import Batch, Plan

if TYPE_CHECKING:
    from waterclock.operations.opening import Reading


@dataclass(frozen=True, slots=True)
class OpenBooks:
    """The windows of one table whose books are open: the oldest of them, which the others wait for, and how many."""

    table: Table
    first: Batch
    count: int
    now: datetime

    @property
    def is_stuck(self) -> bool:
        """Whether a whole window has passed since the oldest one ended, and nothing closes it for certain."""
        window = self.first.window
        return self.table.partial_after is None and self.now - window.end >= window.end - window.start

    def lines(self) -> Iterator[str]:
        """Yield what is to be said of them: how many, what the oldest waits for, and what closes it all the same."""
        where = f"{self.table.name}@{self.first.window.label}"
        more = f", and {count_words(self.count - 1, 'window')} behind it" if self.count > 1 else ""
        yield f"{where} {self.first.reason}{more}"
        if self.is_stuck:
            yield f"  {'; '.join(self._ways(where))}"

    def to_json(self) -> dict[str, Any]:
        """Return it for scripts."""
        closing = self.first.closing or Closing()
        return {
            "label": self.first.window.label,
            "windows": self.count,
            "reason": self.first.reason,
            "looked": instant_text(closing.looked),
            "behind": closing.behind or None,
            "is_stuck": self.is_stuck,
        }

    def _ways(self, where: str) -> Iterator[str]:
        closes = self.table.closes
        if closes is not None and closes.is_by_hand:
            yield f"if that does not come, `waterclock close {where} --why ...` closes it"
        else:
            yield "if that does not come, OR closed_by_hand() in CLOSE WHEN lets `waterclock close` close it"
        yield "PARTIAL AFTER 1 DAY closes each window a day after its end at the latest"


def open_books(plan: Plan, flow: Flow) -> dict[str, OpenBooks]:
    """Return by table the windows that are due and whose books are open."""
    found: dict[str, list[Batch]] = {}
    for batch in plan.batches:
        is_open = batch.closing is None or batch.closing.tick is None
        if is_open and not batch.is_revision and flow.tables[batch.table].closes is not None:
            found.setdefault(batch.table, []).append(batch)
    left = plan.left_out
    return {
        name: OpenBooks(flow.tables[name], batches[0], len(batches) + left.get(name, 0), plan.now)
        for name, batches in found.items()
    }


def closing_of(at: Reading, table: Table, label: datetime) -> Closing | None:
    """Return what is known of the books of a window; None where they are not closed by a condition."""
    if table.closes is None or at.ledger is None:
        return None
    return at.ledger.reads.closings(table.name, [label]).get(label)


def books_words(closing: Closing, zone: str) -> str:
    """Say where books are closed and why, or how far a window was looked at whose books are open."""
    if closing.tick is not None:
        return closed_words(closing, zone, instant_words).removeprefix("books ")
    looked = "" if closing.looked is None else f", looked at up to {instant_words(closing.looked, zone)}"
    return f"open{looked}{f'; furthest behind: {part_words(closing.behind)}' if closing.behind else ''}"
