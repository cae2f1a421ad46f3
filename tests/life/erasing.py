"""Erases persons in a life: their rows are removed from all tables with a column of them, and never return.

The rules are those of docs/howto/erase-people.md. A life's queries work by key, so the rows of other persons stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.life.books import Unexpected
from tests.life.deciding import Deciding
from tests.life.declarations import Declared
from tests.life.parts import Closes
from tests.life.people import Apart, Subject
from tests.life.rows import person_of


@dataclass
class Erasing(Deciding):
    """A life's flow, its sources, the people who run it, and erased persons."""

    exported: bool = False
    """Whether the ledger was exported: by `maintain`, after a reset, after a rename."""
    copied: set[str] = field(default_factory=set)
    """Tables for which an older copy of the log is kept."""
    is_past_whole: bool = True
    """Whether the past equals the current content up to a day: no batch was deliberately left unchanged."""

    def erase(self) -> None:
        """Erase a person who has rows in some tables, if all batches are done and none is held."""
        tables = tables_of_persons(self.flow)
        # a person whose rows are typed in again is erased again, which no life does yet;
        # how a watermark counts rows that no batch keeps, and how erasure treats answers of an API, is not documented
        is_known = not any(table.has(Closes) or table.answers or table.is_form for table in self.flow.values())
        if not tables or not is_known or self.oracle.troubles() or self.paused:
            return
        rows = [row for name in tables for made in self.oracle.books[name].shown.values() for row in made.came]
        keys = sorted({person_of(row.k) for row in rows} - self.oracle.erased.keys())
        if not keys:
            return
        key = self.random.choice(keys)
        self.story.append(f"erased {key} in {', '.join(sorted(tables))}")
        for name in tables | {name for name, table in self.flow.items() if table.has(Apart)}:
            self._meet("erased", self.flow[name].words)
        for name in tables & set(self.sources):
            self.erased_rows.setdefault(name, []).extend(row for row in self.oracle.source[name] if row.k == key)
        self.oracle.erase(key, tables)
        self.exported = True
        self.known.clear()  # older versions are not readable any more
        self.copied.clear()
        self.is_past_whole = False
        if self.world is None:
            return
        self.world.declare()
        self.world.erase(key, tables)
        seen = self.world.seen()
        for name, table in self.flow.items():
            if table.kind != "PUBLISH" and self.oracle.visible(name) != seen[name].rows:
                raise Unexpected(f"{name} has {seen[name].rows} without {key}, not {self.oracle.visible(name)}")


def tables_of_persons(flow: Mapping[str, Declared]) -> set[str]:
    """Return the tables whose key is a person's: those that declare it, and copies in either direction."""
    found = {name for name, table in flow.items() if table.has(Subject)}
    before = -1
    while found and before != (before := len(found)):
        for name, table in flow.items():
            copied = _copied_tables(table)
            if name in found and len(copied) == 1:
                found |= copied
            elif copied and copied <= found:
                found.add(name)
    return {name for name in found if not flow[name].has(Apart)}  # its rows have pseudonyms, and stay


def _copied_tables(table: Declared) -> set[str]:
    """Return the tables whose key a table copies; a table that chooses by its label may copy that of either."""
    if table.kind == "PUBLISH":
        return {table.of}
    return {reads[0].table for reads in (table.reads, table.odd) if reads}
