"""Finds the tables that the flow does not declare any more, whose folders remain, by their last declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from waterclock.batches.audit_records import DeclaredStatement
from waterclock.batches.former_names import is_borrowed
from waterclock.connectors.registry import capabilities
from waterclock.dpl.former_tables import compile_former_flow
from waterclock.dpl.query.column_trace import ColumnOf
from waterclock.dpl.query.subject_columns import SubjectColumns
from waterclock.engine.batch.erased_rows import find_columns_of_subject
from waterclock.engine.run_context import RunContext
from waterclock.files.filesystem import entry_path, is_folder
from waterclock.files.object_stores import is_remote
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind
from waterclock.flow.graph import closure, parents_of


@dataclass(frozen=True, slots=True)
class FormerTable:
    """A table that is not declared any more: its last declaration, and the columns of the subject at that time.

    `work` has the flow of that time, in which the table is declared, and `known` the columns of all its tables.
    `reason` is why the table cannot be searched. It is empty for a table with columns of the subject, and for one that
    was never made from rows of persons.
    """

    name: str
    folder: str
    work: RunContext | None = None
    known: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reason: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the subject that the table has."""
        return self.known.get(self.name, ())

    @property
    def table(self) -> Table | None:
        """The last declaration, if the table can be searched."""
        return self.work.flow.tables[self.name] if self.work is not None and self.columns else None


def find_former_tables(work: RunContext, subject: str, known: SubjectColumns) -> tuple[FormerTable, ...]:
    """Return the tables without a declaration whose folders remain. `known` are the columns of the subject now.

    Cost: a compilation of the flow at the last declaration of one of them, and one more for each that it does not fit.
    """
    gone = [record.name for record in work.ledger.reads.tables() if _is_gone(work, record.name)]
    if not gone:
        return ()
    history = _History(work.ledger.past.declared_statements())
    search = _Search(work, subject, known, history)
    found = {name: search.find(name) for name in sorted(gone, key=history.position, reverse=True)}
    return tuple(found[name] for name in gone)


def _is_gone(work: RunContext, name: str) -> bool:
    """Return whether a table is not declared any more, or only a delivery of its name, and its folder remains.

    A link that leads nowhere counts as a folder: its disk may not be mounted. Tables of the base of a branch do not
    count.
    """
    declared, location = work.flow.tables.get(name), work.lake.location(name)
    if (declared is not None and declared.kind is not Kind.PUBLISH) or is_borrowed(location):
        return False
    folder = work.lake.folder(name)
    path = entry_path(folder)
    return not location.startswith("publish/") and (is_folder(path) or (not is_remote(folder) and path.is_symlink()))


@dataclass(frozen=True, slots=True)
class _History:
    """All declarations of tables, oldest first."""

    declared: Sequence[DeclaredStatement]

    def position(self, name: str) -> int:
        """Return the position of the last declaration of a table; -1 if the ledger has none."""
        return max((index for index, each in enumerate(self.declared) if each.table == name), default=-1)

    def when_last_declared(self, name: str) -> dict[str, DeclaredStatement]:
        """Return the declarations of all tables as they were when `name` was declared last."""
        last = self.declared[self.position(name)].at
        return {each.table: each for each in self.declared if each.at <= last}


@dataclass(slots=True)
class _Search:
    """The contexts of flows that were compiled before, newest first, each with the columns of the subject."""

    work: RunContext
    subject: str
    known: SubjectColumns
    history: _History
    compiled: list[tuple[RunContext, SubjectColumns]] = field(default_factory=list)

    def find(self, name: str) -> FormerTable:
        """Return a table with its last declaration, or with the reason why it cannot be searched."""
        folder = self.work.lake.folder(name)
        if not is_folder(entry_path(folder)):
            return FormerTable(name, folder, reason="its folder is a link that leads nowhere")
        compiled = self._compile(name)
        if isinstance(compiled, str):
            return FormerTable(name, folder, reason=compiled)
        former, found = compiled
        if (why := found.unsearchable.get(name)) is not None:
            return FormerTable(name, folder, reason=f"it cannot be searched: {why}")
        return FormerTable(name, folder, former, found.columns)

    def _compile(self, name: str) -> tuple[RunContext, SubjectColumns] | str:
        """Return a context whose flow declares a table as it was declared last, or the reason why there is none."""
        if self.history.position(name) < 0:
            return "the ledger has no declaration of it"
        then = self.history.when_last_declared(name)
        for each in self.compiled:
            if name in each[0].flow.tables and _find_changed(each[0].flow, name, then) is None:
                return each
        texts = {table: each.statement for table, each in then.items()}
        flow = compile_former_flow(self.work.project, name, texts, capabilities())
        if isinstance(flow, str):
            return flow
        changed = _find_changed(flow, name, then)
        if changed is not None:
            of = "its last declaration" if changed == name else f"the declaration of {changed} at that time"
            return f"{of} reads a view, function or variable that changed since"
        former = replace(self.work, project=replace(self.work.project, flow=flow))
        added = [ColumnOf(table, column) for table, columns in self.known.columns.items() for column in columns]
        found = find_columns_of_subject(former, self.subject, [each for each in added if each.table in flow.tables])
        self.compiled.append((former, found))
        return former, found


def _find_changed(flow: Flow, name: str, then: Mapping[str, DeclaredStatement]) -> str | None:
    """Return the first table behind `name` that is compiled to other code than was declared; None if all are equal."""
    return next(
        (
            each
            for each in sorted({name, *closure([name], parents_of(flow))})
            if each not in then or flow.tables[each].fingerprint != then[each].code
        ),
        None,
    )
