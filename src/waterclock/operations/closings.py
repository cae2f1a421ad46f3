"""Describes the books of windows: when and why they closed, how far open ones were checked, and how to close them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import Closing
from waterclock.flow.declarations import Flow, Table
from waterclock.operations.formatting import count_words, instant_words
from waterclock.planner.closings import closed_words, failed_check_words, part_words
from waterclock.planner.plan import Batch, Plan

if TYPE_CHECKING:
    from waterclock.operations.project_opening import OpenedProject


@dataclass(frozen=True, slots=True)
class OpenBooks:
    """The windows of one table whose books are open: the oldest, for which the others wait, and their number."""

    table: Table
    first: Batch
    count: int
    now: datetime

    @property
    def is_stuck(self) -> bool:
        """Whether a full window length has passed since the oldest window ended, and no PARTIAL AFTER will close it."""
        window = self.first.window
        return self.table.partial_after is None and self.now - window.end >= window.end - window.start

    @property
    def closing_of_oldest(self) -> Closing:
        """The state of the oldest window's books: how far CLOSE WHEN was checked."""
        return self.first.closing or Closing()

    def lines(self) -> Iterator[str]:
        """Yield lines for people: the number of windows, what the oldest one waits for, and how to close it anyway."""
        where = f"{self.table.name}@{self.first.window.label}"
        more = f", and {count_words(self.count - 1, 'window')} after it" if self.count > 1 else ""
        yield f"{where} {self.first.reason}{more}"
        if self.is_stuck:
            yield f"  {'; '.join(self._ways_to_close(where))}"

    def _ways_to_close(self, where: str) -> Iterator[str]:
        closes = self.table.closes
        if closes is not None and closes.is_by_hand:
            yield f"if that does not happen, `waterclock close {where} --why ...` closes it"
        else:
            yield "if that does not happen, add OR closed_by_hand() to CLOSE WHEN, and `waterclock close` closes it"
        yield "PARTIAL AFTER 1 DAY closes each window a day after its end at the latest"


def open_books(plan: Plan, flow: Flow) -> dict[str, OpenBooks]:
    """Map each table that has due windows with open books (CLOSE WHEN) to these windows."""
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


def read_closing(at: OpenedProject, table: Table, label: datetime) -> Closing | None:
    """Return the stored closing of a window, or None if it has none or its table has no CLOSE WHEN."""
    if table.closes is None or at.ledger is None:
        return None
    return at.ledger.reads.closings(table.name, [label]).get(label)


def books_words(closing: Closing, zone: str) -> str:
    """Describe when and why the books of a window closed, or how far an open window was checked."""
    if closing.tick is not None:
        return closed_words(closing, zone, instant_words).removeprefix("books ")
    checked = "" if closing.looked is None else f"checked up to {instant_words(closing.looked, zone)}"
    described = ", ".join(filter(None, ("open", checked, failed_check_words(closing))))
    return f"{described}{f'; furthest behind: {part_words(closing.behind)}' if closing.behind else ''}"
