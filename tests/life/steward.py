"""The engine's side of a life's forms: edits by the product's functions, and what the database has after a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from tests import postgres
from tests.life.declarations import Declared
from tests.life.form_book import Content, Draft
from tests.life.rows import instant, minute
from waterclock.connectors.forms import proposals
from waterclock.connectors.forms.changes import Applied, Edit, Origin, apply
from waterclock.connectors.forms.connector import forms_database_of
from waterclock.connectors.forms.database import BATCHES, CHANGES, ROWS, FormsDatabase, from_text
from waterclock.connectors.forms.history import find_row, undo
from waterclock.connectors.forms.imports import review_rows
from waterclock.connectors.forms.row_files import read_text
from waterclock.connectors.interface import Setting
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.form_rights import FormRights
from waterclock.flow.forms import Entity, FormField

FIELDS = (
    FormField("k", "BIGINT", is_key=True, is_required=True),
    FormField("v", "BIGINT", is_required=True),
    FormField("at", "TIMESTAMP", is_required=True),
)
DIRECT = (
    f"UPDATE {ROWS} SET content = '{{}}'",
    f"DELETE FROM {ROWS}",
    f"UPDATE {CHANGES} SET after = NULL",
    f"DELETE FROM {CHANGES}",
    f"UPDATE {BATCHES} SET at = ''",
)
"""Statements by which somebody would change rows or their history without a record."""


STEPS = (
    "forms.batch", "forms.changes", "forms.deletes", "forms.rows", "forms.proposal", "forms.proposed", "forms.decided",
    "forms.done",
)  # fmt: skip
"""The steps of a change at which its process may end; the last one is after the commit."""


class AnswerLost(Exception):
    """The process of an editor ended at a step of a change."""


class Inserted(NamedTuple):
    """A row that a publish inserted into a form: its batch, when it counts, its key, and its values."""

    batch: int
    at: datetime
    key: int
    content: Content


@dataclass
class Steward:
    """The database of a life's forms. `at`: what its clock shows."""

    root: Path
    hours: int
    is_server: bool = False
    at: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    tables: Mapping[str, Declared] = field(default_factory=dict)
    """The tables of forms by the names of these."""

    @cached_property
    def options(self) -> dict[str, str]:
        """The options of the connection."""
        if not self.is_server:
            return {"url": "sqlite:///forms.sqlite"}
        schema = postgres.server().fresh_schema()
        postgres.server().run(f"CREATE SCHEMA {schema}")
        return {"url": postgres.server().url, "schema": schema}

    @cached_property
    def database(self) -> FormsDatabase:
        return forms_database_of(Setting("forms", self.options, self.root, self.root / "archive"))

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Let the clock of the database show `at`."""
        with patch.object(FormsDatabase, "now", lambda _database, _session: self.at):
            yield

    def entity(self, form: str) -> Entity:
        table = self.tables[form]
        return Entity(form, "forms", table.name, FIELDS, needs_approval=table.needs_approval)

    def version(self, form: str, key: int) -> int | None:
        """Return the version of a row as an editor sees it; None if there is none."""
        row = find_row(self.database, self.entity(form), (str(key),))
        return None if row is None else row.version

    def save(self, form: str, who: str, drafts: Sequence[Draft], versions: Mapping[int, int | None]) -> Applied:
        """Save rows, as an editor does who saw these versions."""
        edits = [
            Edit((str(it.key),), None if it.after is None else self._texts(it.after), versions[it.key]) for it in drafts
        ]
        return apply(self.database, self.entity(form), by=FormRights(who), why="edited", edits=edits)

    def review(self, form: str, who: str, lines: Mapping[int, Content]) -> tuple[Edit, ...]:
        """Review a pasted block, where a blank keeps a value; return no edits if a row is refused, or none changes."""
        texts = {key: self._texts(content) for key, content in lines.items()}
        block = "\n".join(["v\tk\tat", *(f"{it['v'] or ''}\t{key}\t{it['at'] or ''}" for key, it in texts.items())])
        review = review_rows(self.database, self.entity(form), read_text(block), by=FormRights(who))
        return review.edits if review.can_be_applied else ()

    def paste(self, form: str, who: str, edits: Sequence[Edit]) -> Applied:
        """Save the rows of a pasted block as one batch."""
        if not edits:
            raise WaterclockError("E891", "the review refuses a row, or no row changes")
        return apply(
            self.database, self.entity(form), by=FormRights(who), why="pasted", edits=edits, origin=Origin.IMPORT
        )

    def undo(self, form: str, who: str, batch: int) -> Applied:
        return undo(self.database, self.entity(form), batch, by=FormRights(who), why="undone")

    def approve(self, form: str, who: str, number: int) -> Applied:
        return proposals.approve(self.database, self.entity(form), number, FormRights(who))

    def close(self, form: str, who: str, number: int, *, is_own: bool) -> None:
        """Reject a proposal, or withdraw one's own."""
        close = proposals.withdraw if is_own else proposals.reject
        close(self.database, self.entity(form), number, FormRights(who), "not so")

    def change_directly(self, statement: str) -> str:
        """Run SQL that changes rows or history; return the reason why the database refuses it, "" if it does not."""
        try:
            with self.database.open_for_writing("forms") as session:
                session.execute(statement)
        except Exception as error:  # noqa: BLE001 - each database and driver has its own
            return str(error)
        return ""

    # what the database has

    def inserted(self, form: str, after: int) -> list[Inserted]:
        """Return the rows that publishes inserted into a form in batches after that of a number."""
        sql = (
            f"SELECT b.id, b.at, c.key, c.before, c.after FROM {BATCHES} AS b JOIN {CHANGES} AS c ON c.batch = b.id"
            f" WHERE b.entity = ? AND b.id > ? AND b.origin = 'publish' ORDER BY c.id"
        )
        found = []
        with self.database.open_for_reading("forms") as session:
            for batch, at, key, before, text in session.rows_of(sql, (form, after)):
                assert before is None, f"a publish changed the row {key} of {form}"
                found.append(Inserted(batch, from_text(at), int(key), self._content(form, int(key), text)))
        return found

    def current(self, form: str) -> dict[int, Content]:
        """Return the current rows of a form."""
        with self.database.open_for_reading("forms") as session:
            found = session.rows_of(f"SELECT key, content FROM {ROWS} WHERE entity = ?", (form,))
        return {int(key): self._content(form, int(key), text) for key, text in found}

    def last_batch(self) -> tuple[int, datetime | None]:
        """Return the number of the newest batch, and when it counts; 0 if there is none."""
        with self.database.open_for_reading("forms") as session:
            found = session.first_of(f"SELECT id, at FROM {BATCHES} ORDER BY id DESC LIMIT 1")
        return (0, None) if found is None else (int(found[0]), from_text(found[1]))

    def make(self, change: Callable[[], Applied], point: str) -> Applied:
        """Make a change; if the process ends at the step `point`, make it again, as somebody who had no answer.

        Nothing is lost then, and nothing is there twice.
        """
        if not point:
            return change()
        before, is_lost = self.last_batch()[0], False

        def strike(at: str) -> None:
            if at == point:
                raise AnswerLost(at)

        with inject_faults(strike):
            try:
                return change()
            except AnswerLost:
                is_lost = True
        written, at = self.last_batch()
        assert written == before or point == "forms.done", f"batch {written} is there, but its process ended at {point}"
        applied = change()
        assert self.last_batch()[0] <= before + 1, "the change is there twice"
        if is_lost and written > before and applied.batch is None:
            return replace(applied, batch=written, at=at, rows=-1)
        return applied

    def _content(self, form: str, key: int, text: str) -> Content:
        content = dict(json.loads(text))
        assert content.pop("k") == str(key), f"{form} has the row {key} with another key"
        v, at = content.pop("v", None), content.pop("at", None)
        assert not content, f"{form} has {content} in the row {key}"
        return Content(None if v is None else int(v), None if at is None else self.minute(at))

    def minute(self, text: str) -> int:
        return minute(datetime.fromisoformat(text), self.hours)

    def _texts(self, content: Content) -> dict[str, str | None]:
        at = None if content.at is None else f"{instant(content.at, self.hours):%F %T}Z"
        return {"v": None if content.v is None else str(content.v), "at": at}
