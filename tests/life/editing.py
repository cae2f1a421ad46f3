"""Edits the forms of a life at random times: rows are saved, pasted, undone, proposed and approved, also too late.

The rules are those of docs/howto/edit-a-mapping-table.md, a-classification-queue.md and approve-changes.md. A change
that reaches the database after a window was collected counts from the end of that window on, whatever the clock shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from tests.life.arriving import Arriving
from tests.life.books import Unexpected
from tests.life.form_book import Content, Draft, FormChange, Proposal
from tests.life.rows import DAY, EPOCH
from tests.life.steward import DIRECT, STEPS, Steward
from waterclock.connectors.forms.changes import Applied
from waterclock.errors import WaterclockError

KEYS = (3, 4, 5, 6)
"""The keys that people add to forms. Sources have the keys 1 to 4, so 1 and 2 come by a queue only."""
PEOPLE = ("ada", "ben", "cy")


@dataclass
class Editing(Arriving):
    """A life's flow, its sources, and the people who edit its forms."""

    edits: Random | None = None
    """Draws the forms and their edits; None if the life has none."""
    steward: Steward | None = None
    proposals: list[Proposal] = field(default_factory=list)
    looks: dict[tuple[str, int], tuple[int | None, int | None]] = field(default_factory=dict)
    """Rows that an editor has open since earlier: the number and the version of the change seen, by form and key."""
    newest: datetime = EPOCH
    """When the newest change of all forms counts."""
    sealed: datetime = EPOCH
    """The end of the newest window of a form that was certainly collected."""
    breaks: Random = field(default_factory=lambda: Random(0))
    """Draws which edits are broken off, on the engine only."""
    numbers: int = 0
    batches: int = 0

    @property
    def forms(self) -> dict[str, str]:
        """The forms, and the table that collects each."""
        return {table.source: name for name, table in self.flow.items() if table.is_form}

    @property
    def draws(self) -> Random:
        assert self.edits is not None
        return self.edits

    def arrive(self, name: str, number: int, most: int = 3) -> None:
        if not self.flow[name].is_form:
            super().arrive(name, number, most)
            return
        for _ in range(self.draws.randint(0, most - 1)):
            self.edit(name, number)

    def edit_forms(self) -> None:
        """Edit a form, today or at a time long ago by a clock that was set back."""
        name = self.draws.choice([*self.forms.values()])
        for _ in range(self.draws.randint(1, 3)):
            self.edit(name, max(1, self.oracle.today - self.draws.choice((0, 1, 1, 2, 3, 4))))

    def edit(self, name: str, number: int) -> None:
        """Make one random change of a form on a day."""
        form = self.flow[name].source
        clock = self.moment(number) + timedelta(seconds=self.draws.randrange(self.hours * 3600))
        if self.steward is not None:
            self.steward.at = clock
        events: list[Callable[[str, datetime], str]] = [self._save, self._paste, self._undo, self._save_stale]
        weights = [8, 2, 2, 1]
        if self.flow[name].needs_approval:
            events.append(self._decide_proposal)
            weights.append(10)
        if self.draws.random() < 0.03:
            self._change_directly()
            return
        told = self.draws.choices(events, weights)[0](form, clock)
        self._say(name, "edited")
        self.story[-1] += f" at {clock:%d %T}: {told}"

    def opened_forms(self, root: Path, *, is_server: bool) -> Steward | None:
        """Return the database of the forms, if there are any: a file, or a schema on a server."""
        if not self.forms:
            return None
        tables = {table.source: table for table in self.flow.values() if table.is_form}
        return Steward(root, self.hours, is_server=is_server, tables=tables)

    # kinds of edits

    def _content(self) -> Content:
        at = self.draws.randrange(0, self.oracle.today * DAY, 7)
        return Content(self.draws.randint(1, 400), at)

    def _draft(self, form: str, key: int) -> Draft:
        """Draw a change of a row: often all values, sometimes one, or none."""
        book = self.oracle.forms[form]
        there = book.content(key)
        if there is not None and self.draws.random() < 0.2:
            return Draft(key, None, book.seen(key))
        drawn = self._content()
        if there is not None and self.draws.random() < 0.4:
            name = self.draws.choice(("v", "at"))
            drawn = there.with_values({name: getattr(drawn, name)})
        if self.draws.random() < 0.05:
            drawn = drawn._replace(v=None)
        return Draft(key, drawn, book.seen(key))

    def _keys(self, form: str) -> list[int]:
        """Draw the keys to change: often those that wait for their values."""
        waiting = [key for key, it in self.oracle.forms[form].current.items() if it.after and it.after.waits]
        if waiting and self.draws.random() < 0.5:
            return waiting[:1]
        return sorted(self.draws.sample(KEYS, self.draws.choice((1, 1, 1, 2, 3))))

    def _save(self, form: str, clock: datetime) -> str:
        drafts = tuple(self._draft(form, key) for key in self._keys(form))
        versions = self._versions(form, [draft.key for draft in drafts])
        who = self.draws.choice(PEOPLE)
        key = drafts[0].key
        if self.draws.random() < 0.3:  # an editor leaves the row open, and saves it later
            self.looks[form, key] = drafts[0].seen, versions[key]
        steward = self.steward
        made = None if steward is None else lambda: steward.save(form, who, drafts, versions)
        return self._apply(form, clock, who, drafts, made, is_checked=True)

    def _save_stale(self, form: str, clock: datetime) -> str:
        """Save a row from an older version of it, which is refused if another person changed it meanwhile."""
        keys = sorted(key for of, key in self.looks if of == form)
        if not keys:
            return self._save(form, clock)
        key = self.draws.choice(keys)
        seen, version = self.looks.pop((form, key))
        draft, who, steward = Draft(key, self._content(), seen), self.draws.choice(PEOPLE), self.steward
        made = None if steward is None else lambda: steward.save(form, who, [draft], {key: version})
        return "of an older version, " + self._apply(form, clock, who, (draft,), made, is_checked=True)

    def _paste(self, form: str, clock: datetime) -> str:
        """Paste a block, with blanks that keep values."""
        book, lines, drafts = self.oracle.forms[form], dict[int, Content](), list[Draft]()
        for key in sorted({*self.draws.sample(KEYS, self.draws.randint(1, 3)), *list(book.current)[:1]}):
            cells = self._content()
            if self.draws.random() < 0.2:
                cells = cells._replace(**{self.draws.choice(("v", "at")): None})
            lines[key] = cells
            there = book.content(key) or Content()
            entered = {name: value for name, value in cells._asdict().items() if value is not None}
            drafts.append(Draft(key, there.with_values(entered), book.seen(key)))
        who, steward = self.draws.choice(PEOPLE), self.steward
        edits = () if steward is None else steward.review(form, who, lines)
        if book.judge(drafts, is_checked=True) == ("", ()):
            if edits:
                raise Unexpected(f"{form} has the pasted rows, but the review finds {edits}")
            return "pasted what is there"
        made = None if steward is None else lambda: steward.paste(form, who, edits)
        return "pasted, " + self._apply(form, clock, who, tuple(drafts), made, is_checked=True)

    def _undo(self, form: str, clock: datetime) -> str:
        """Undo one of the newest batches, or a batch of long ago, which is refused if its rows changed since."""
        book = self.oracle.forms[form]
        batches = book.batches()
        if not batches:
            return self._save(form, clock)
        batch = self.draws.choice(batches[-2:] if self.draws.random() < 0.8 else batches)
        who, steward = self.draws.choice(PEOPLE), self.steward
        made = None if steward is None else lambda: steward.undo(form, who, batch)
        return f"undo of {batch}, " + self._apply(form, clock, who, book.undoing(batch), made, is_checked=False)

    def _versions(self, form: str, keys: Sequence[int]) -> dict[int, int | None]:
        return {key: None if self.steward is None else self.steward.version(form, key) for key in keys}

    def _change_directly(self) -> None:
        """Change rows or history by SQL, which the database refuses."""
        self.story.append("SQL in the database of the forms")
        if self.steward is None or not any(book.current for book in self.oracle.forms.values()):
            return
        statement = self.draws.choice(DIRECT)
        why = self.steward.change_directly(statement)
        if "append-only" not in why and "which record each change" not in why:
            raise Unexpected(f"{statement} is not refused: {why or 'no error'}")

    # what an edit does

    def _apply(
        self,
        form: str,
        clock: datetime,
        who: str,
        drafts: tuple[Draft, ...],
        made: Callable[[], Applied] | None,
        *,
        is_checked: bool,
    ) -> str:
        """Make edits by `made` and in the oracle, and compare; return what they did."""
        book = self.oracle.forms[form]
        code, changing = book.judge(drafts, is_checked=is_checked)
        told = ", ".join(f"{it.key} is {'deleted' if it.after is None else tuple(it.after)}" for it in drafts)
        applied = self._made(made, code, told)
        if code:
            return f"{told}: {code}"
        if applied is not None and applied.rows not in {len(changing), -1}:
            raise Unexpected(f"{told} changed {applied.rows} rows of {form}, not {len(changing)}")
        if not changing:
            return f"{told}: as it is"
        if self.flow[self.forms[form]].needs_approval:
            return f"{told}: proposal {self._propose(form, who, changing, applied, is_checked=is_checked)}"
        return f"{told}: batch {self._write(form, clock, changing, applied)}"

    def _made(self, made: Callable[[], Applied] | None, code: str, told: str) -> Applied | None:
        """Make a change in the product; verify that it is refused by this code, if any."""
        if made is None or self.steward is None:
            return None
        point = self.breaks.choice(STEPS) if self.breaks.random() < 0.15 else ""
        told += f", broken off at {point}" if point else ""
        try:
            applied = self.steward.make(made, point)
        except WaterclockError as error:
            if error.code != code:
                raise Unexpected(f"{told} is refused by {error.code}, not {code or 'saved'}: {error}") from error
            return None
        if code:
            raise Unexpected(f"{told} is saved, although {code} refuses it")
        return applied

    def _write(self, form: str, clock: datetime, changing: Sequence[Draft], applied: Applied | None) -> int:
        """Record a batch of changes, whose time is that of the clock, but before no batch and no collected window."""
        at = self._time(clock)
        if applied is not None:
            assert applied.at is not None
            assert applied.batch is not None
            if applied.at not in {at, self._time(clock, is_attempted=True)}:
                raise Unexpected(f"a change of {form} at {clock} counts from {applied.at} on, not {at}")
            at = applied.at
        self.batches = self.batches + 1 if applied is None or applied.batch is None else applied.batch
        self._record(form, self.batches, at, changing)
        return self.batches

    def _record(self, form: str, batch: int, at: datetime, changing: Sequence[Draft]) -> None:
        book = self.oracle.forms[form]
        for draft in changing:
            self.numbers += 1
            before = book.content(draft.key)
            book.changes.append(FormChange(self.numbers, batch, at, draft.key, before, draft.after))
        self.newest = max(self.newest, at)

    def _time(self, clock: datetime, *, is_attempted: bool = False) -> datetime:
        """Return when a change counts. `is_attempted`: all windows that are over have been read, by a failed run."""
        sealed = max(self.sealed, self.moment(self.oracle.today)) if is_attempted else self.sealed
        return max(clock, self.newest, sealed)

    # proposals

    def _propose(
        self, form: str, who: str, changing: tuple[Draft, ...], applied: Applied | None, *, is_checked: bool
    ) -> int:
        """Record a proposal; the same rows by the same person again are the open proposal."""
        same = next(
            (it for it in self.proposals if (it.form, it.who, it.drafts) == (form, who, tuple(sorted(changing)))), None
        )
        if same is not None:
            if applied is not None and applied.proposal != same.number:
                raise Unexpected(f"the same rows are proposal {same.number} and proposal {applied.proposal}")
            return same.number
        number = applied.proposal if applied is not None and applied.proposal else len(self.story)
        if applied is not None and (applied.batch is not None or any(it.number == number for it in self.proposals)):
            raise Unexpected(f"{form} needs approval, but has {applied}")
        self.proposals.append(Proposal(number, form, who, tuple(sorted(changing)), is_checked))
        return number

    def _decide_proposal(self, form: str, clock: datetime) -> str:
        """Approve a proposal as another person, or as its author, which is refused; reject or withdraw it."""
        of_form = [it for it in self.proposals if it.form == form]
        if not of_form:
            return self._save(form, clock)
        proposal, steward = self.draws.choice(of_form), self.steward
        other = self.draws.choice([person for person in PEOPLE if person != proposal.who])
        verb = self.draws.choices(("approve", "approve own", "reject", "withdraw"), (8, 1, 1, 1))[0]
        told = f"{verb} proposal {proposal.number}"
        if verb == "approve own":
            if steward is not None:
                self._made(lambda: steward.approve(form, proposal.who, proposal.number), "E899", told)
            return f"{told}: E899"
        if verb in {"reject", "withdraw"}:
            if steward is not None:
                is_own = verb == "withdraw"
                steward.close(form, proposal.who if is_own else other, proposal.number, is_own=is_own)
            self.proposals.remove(proposal)
            return told
        code, changing = self.oracle.forms[form].judge(proposal.drafts, is_checked=proposal.is_checked)
        made = None if steward is None else lambda: steward.approve(form, other, proposal.number)
        applied = self._made(made, code, told)
        if code:
            return f"{told}: {code}"
        self.proposals.remove(proposal)
        if not changing:
            return f"{told}: as it is"
        return f"{told}: batch {self._write(form, clock, changing, applied)}"

    # after a run

    def look_at_forms(self, *, is_calm: bool) -> None:
        """Record the keys that publishes inserted into forms, and verify that they changed nothing else.

        `is_calm`: nothing failed, is held or is paused.
        """
        if not self.forms:
            return
        for form in self.forms:
            for name in [name for name, it in self.flow.items() if it.way == "queue" and it.source == form]:
                self._look_at_queue(name, form, is_calm=is_calm)
            if self.steward is not None:
                expected = {key: change.after for key, change in self.oracle.forms[form].current.items()}
                if (found := self.steward.current(form)) != expected:
                    raise Unexpected(f"{form} has the rows {found}, not {expected}")
        for name, table in self.flow.items():
            if table.is_form:
                labels = [label for label, status in self.oracle.books[name].status.items() if status]
                self.sealed = max([self.sealed, *(self.moment(label + table.size) for label in labels)])

    def _look_at_queue(self, name: str, form: str, *, is_calm: bool) -> None:
        publish, book = self.flow[name], self.oracle.forms[form]
        had = book.had
        now = self.moment(self.oracle.today)
        if self.steward is None:
            keys = {key for key, _ in self.oracle.delivered(publish)[0]} if is_calm else set()
            if keys - had:
                self.batches += 1
                drafts = [Draft(key, Content(), None) for key in sorted(keys - had)]
                self._record(form, self.batches, self._time(now), drafts)
            return
        known = max((change.batch for it in self.oracle.forms.values() for change in it.changes), default=0)
        published = {
            row.k
            for books in (self.oracle.books, self.oracle.before)
            for made in (books[publish.of].shown.values() if publish.of in books else ())
            for row in made.stay
        }
        for new in self.steward.inserted(form, known):
            if new.content != Content() or new.key in book.had or new.key not in published:
                raise Unexpected(f"{name} inserted {new}, of {sorted(published)}; the form had {sorted(book.had)}")
            if not self.newest <= new.at <= max(self.newest, now):
                raise Unexpected(f"{name} inserted {new}, which is not between {self.newest} and {now}")
            self._record(form, new.batch, new.at, [Draft(new.key, Content(), None)])
            self.batches = new.batch
        if is_calm and not self.oracle.is_newest_open(publish.of):
            delivered = [{key for key, _ in found} for found in self.oracle.delivered(publish)]
            if not any(keys <= book.had for keys in delivered):
                raise Unexpected(f"{form} has had {sorted(book.had)}, but {name} delivered {sorted(delivered[0])}")
