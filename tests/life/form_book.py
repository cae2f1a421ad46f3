"""The changes of a form as a life wrote them, and its rows as of an instant, by docs/howto/edit-a-mapping-table.md.

Nothing is read from the product: each change has the values and the time that the life knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from tests.life.rows import Row, Rows


class Content(NamedTuple):
    """The columns of a row besides its key; a value that is missing is None, and then the row waits."""

    v: int | None = None
    at: int | None = None

    @property
    def waits(self) -> bool:
        return self.v is None or self.at is None

    def with_values(self, values: Mapping[str, int | None]) -> Content:
        return self._replace(**dict(values))


class FormChange(NamedTuple):
    """A change of a row: its number, its batch, when it counts, and the row before and after; None is no row."""

    number: int
    batch: int
    at: datetime
    key: int
    before: Content | None
    after: Content | None


class Draft(NamedTuple):
    """An edit of a row by an editor who saw the change `seen` of it; None if there was no row.

    `after`: the whole new row, None to delete it.
    """

    key: int
    after: Content | None
    seen: int | None


class Proposal(NamedTuple):
    """Changes that wait for another person: their number, their author, and whether their values are checked again."""

    number: int
    form: str
    who: str
    drafts: tuple[Draft, ...]
    is_checked: bool


@dataclass
class FormBook:
    """All changes of a form, oldest first."""

    changes: list[FormChange] = field(default_factory=list)

    @property
    def had(self) -> set[int]:
        """The keys that the form has, or had."""
        return {change.key for change in self.changes}

    @property
    def current(self) -> dict[int, FormChange]:
        """The last change of each key that has a row."""
        last = {change.key: change for change in self.changes}
        return {key: change for key, change in last.items() if change.after is not None}

    def content(self, key: int) -> Content | None:
        change = self.current.get(key)
        return None if change is None else change.after

    def seen(self, key: int) -> int | None:
        """Return the number of the change that made a row as it is; None if there is no row."""
        change = self.current.get(key)
        return None if change is None else change.number

    def rows_before(self, end: datetime) -> Rows:
        """Return the rows by the changes with a time before an instant, without those that wait."""
        last: dict[int, Content | None] = {}
        for change in self.changes:
            if change.at < end:
                last[change.key] = change.after
        there = ((key, content) for key, content in sorted(last.items()) if content is not None)
        return tuple(
            Row(key, content.v, content.at)
            for key, content in there
            if content.v is not None and content.at is not None
        )

    def batches(self) -> list[int]:
        return sorted({change.batch for change in self.changes})

    def undoing(self, batch: int) -> tuple[Draft, ...]:
        """Return the edits that restore the rows of a batch, for an editor who saw what it made of them."""
        return tuple(
            Draft(it.key, it.before, None if it.after is None else it.number)
            for it in self.changes
            if it.batch == batch
        )

    def judge(self, drafts: Iterable[Draft], *, is_checked: bool) -> tuple[str, tuple[Draft, ...]]:
        """Return the code by which edits are refused, "" for none, and those that change a row.

        An edit whose result is there changes nothing, whichever version its editor saw. `is_checked`: a row without a
        required value is refused.
        """
        changing = tuple(it for it in drafts if self.content(it.key) != it.after)
        fresh = [it for it in changing if self.seen(it.key) == it.seen]
        if is_checked and any(it.after is not None and it.after.waits for it in fresh):
            return "E891", ()
        return ("E892", ()) if len(fresh) < len(changing) else ("", changing)
