"""Finds the columns of a subject in former declarations: of tables that are not declared any more, and of older slices.

A table whose folder remains is searched by its last declaration, a slice that earlier code of a table made by the last
declaration of that code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from waterclock.batches.audit_records import DeclaredStatement
from waterclock.batches.former_names import FormerNames, is_borrowed, replace_table_names
from waterclock.connectors.registry import capabilities
from waterclock.dpl.former_tables import compile_former_flow
from waterclock.dpl.query.column_trace import ColumnOf
from waterclock.dpl.query.subject_columns import SubjectColumns, list_subjects
from waterclock.engine.batch.erased_rows import find_columns_of_subject
from waterclock.engine.run_context import RunContext
from waterclock.files.filesystem import entry_path, is_folder
from waterclock.files.object_stores import is_remote
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind
from waterclock.flow.graph import closure, parents_of
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.inventory import list_slice_folders
from waterclock.storage.slices.manifest import read_manifest


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
        return self.work.flow.tables[self.name] if self.work is not None else None


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

    def position(self, name: str, code: str | None = None) -> int:
        """Return the position of the last declaration of a table, or of its code; -1 if the ledger has none."""
        of_table = (index for index, each in enumerate(self.declared) if each.table == name)
        return max((index for index in of_table if code in (None, self.declared[index].code)), default=-1)

    def when_declared(self, position: int) -> dict[str, DeclaredStatement]:
        """Return the declarations of all tables as they were at one of the declarations."""
        last = self.declared[position].at
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
        compiled = self.compile(name)
        if isinstance(compiled, str):
            return FormerTable(name, folder, reason=compiled)
        former, found = compiled
        if (why := found.unsearchable.get(name)) is not None:
            return FormerTable(name, folder, reason=f"it cannot be searched: {why}")
        return FormerTable(name, folder, former, found.columns)

    def compile(self, name: str, code: str | None = None) -> tuple[RunContext, SubjectColumns] | str:
        """Return a context whose flow declares a table as it was declared last, or the reason why there is none.

        With `code`: as it was declared last with this code.
        """
        position, which = self.history.position(name, code), "its last declaration" if code is None else "it"
        if position < 0:
            return "the ledger has no declaration of it"
        then = self.history.when_declared(position)
        for each in self.compiled:
            if name in each[0].flow.tables and _find_changed(each[0].flow, name, then, self.work.former) is None:
                return each
        texts = {table: each.statement for table, each in then.items()}
        if name not in texts[name]:  # it was renamed since
            was = {old: new for old, new in self.work.former.tables.items() if new == name}
            texts[name] = replace_table_names(texts[name], was)
        flow = compile_former_flow(self.work.project, name, texts, capabilities(), which)
        if isinstance(flow, str):
            return flow
        changed = _find_changed(flow, name, then, self.work.former)
        if changed is not None:
            of = which if changed == name else f"the declaration of {changed} at that time"
            return f"{of} reads a view, function or variable that changed since"
        former = replace(self.work, project=replace(self.work.project, flow=flow))
        found = find_columns_of_subject(former, self.subject, self._known_in(flow))
        self.compiled.append((former, found))
        return former, found

    def _known_in(self, flow: Flow) -> list[ColumnOf]:
        """Return the columns of the subject now that have the same meaning in a former flow.

        These are declared ones, and copies in tables with the same code: a copy in another query may have been a column
        of the same name with other values, of which rows of others would be erased.
        """
        now, declared = self.work.flow.tables, set(list_subjects(self.work.flow).get(self.subject, ()))
        found = [ColumnOf(table, column) for table, columns in self.known.columns.items() for column in columns]
        return [
            each
            for each in found
            if (then := flow.tables.get(each.table)) is not None
            and (each in declared or self.work.former.code(then.fingerprint) == now[each.table].fingerprint)
        ]


@dataclass(frozen=True, slots=True)
class EarlierCode:
    """The columns of a subject in those slices of a table that earlier code made.

    `known` maps each such code to the columns of all tables at that time, and `flows` are the flows of that time.
    `reason` is why some of these slices cannot be searched, or empty.
    """

    known: Mapping[str, Mapping[str, tuple[str, ...]]]
    flows: tuple[Flow, ...] = ()
    reason: str = ""


def find_earlier_code(
    work: RunContext, subject: str, known: SubjectColumns, former: Sequence[FormerTable]
) -> dict[str, EarlierCode]:
    """Return the tables with stored slices in which other columns are those of the subject than in the declaration now.

    `former` are the tables without a declaration. Cost: for tables with several codes, a read of all manifests, and at
    most a compilation of the flow for each code that slices still have.
    """
    declared = work.ledger.past.declared_statements()
    current = {each.table: each.code for each in declared}
    names = [name for name, table in work.flow.tables.items() if table.kind is not Kind.PUBLISH]
    current |= {name: work.flow.tables[name].fingerprint for name in names}
    changed = {each.table for each in declared if each.code != current[each.table]}
    search = _Search(work, subject, known, _History(declared))
    found = {}
    for name in sorted(changed.intersection([*names, *(each.name for each in former if not each.reason)])):
        now = next((each.known for each in former if each.name == name), known.columns).get(name, ())
        of_name = _find_earlier_code_of(search, name, current[name], now)
        if of_name.reason or any(columns.get(name, ()) != now for columns in of_name.known.values()):
            found[name] = of_name
    return found


def _find_earlier_code_of(search: _Search, name: str, current: str, now: Sequence[str]) -> EarlierCode:
    """Return the columns of earlier slices of one table. `now` are the columns of the subject that it has now.

    Slices whose declaration is of no use are searched by these columns. They are a reason if there are none, or if the
    slices have other columns than those of the current code.
    """
    stored = _columns_of_slices(search.work, name)
    own = {code for code in stored if search.work.former.code(code, current) == current}
    columns = set[str]().union(*(stored[code] for code in own))
    known: dict[str, Mapping[str, tuple[str, ...]]] = {}
    flows, reasons = [], []
    for code in sorted(stored.keys() - own):
        compiled = search.compile(name, code)
        if isinstance(compiled, str):
            reasons += [] if now and stored[code] <= columns else [compiled]
            continue
        then, found = compiled
        if name not in found.unsearchable:
            known[code] = found.columns
            flows.append(then.flow)
        elif name not in search.known.unsearchable and not (now and stored[code] <= columns):
            reasons.append(f"it cannot be searched: {found.unsearchable[name]}")
    return EarlierCode(known, tuple(flows), reasons[-1] if reasons else "")


def _columns_of_slices(work: RunContext, name: str) -> dict[str, set[str]]:
    """Map each code that made stored slices of a table to their columns."""
    folder, schemas = work.lake.folder(name), dict[str, set[str]]()
    if is_borrowed(work.lake.location(name)) or not is_folder(entry_path(folder)):
        return {}
    for leaf in list_slice_folders(folder):
        if leaf.is_sealed:
            with suppress(Exception):  # a damaged slice: the search of the table reports or removes it
                manifest = read_manifest(folder, leaf.path)
                schemas.setdefault(manifest.code, set()).add(manifest.schema)
    return {code: {name.lower() for schema in of for name in fields_of(schema)} for code, of in schemas.items()}


def _find_changed(flow: Flow, name: str, then: Mapping[str, DeclaredStatement], codes: FormerNames) -> str | None:
    """Return the first table behind `name` that is compiled to other code than was declared; None if all are equal."""
    return next(
        (
            each
            for each in sorted({name, *closure([name], parents_of(flow))})
            if each not in then or codes.code(flow.tables[each].fingerprint) != codes.code(then[each].code)
        ),
        None,
    )
