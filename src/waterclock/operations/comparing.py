"""Compares tables of a project with another environment, with an earlier time, or with previous revisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.engine.query.compared_revisions import ALL, Bounds, ComparedSide, TableRevisions, read_table_revisions
from waterclock.engine.query.query import require_table
from waterclock.engine.query.table_comparison import ComparisonOptions, TableComparison, compare_table
from waterclock.engine.run_opening import open_workplace, sessions_of_queries
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Kind
from waterclock.operations.compared_environment import (
    OtherProject,
    PersonsView,
    naming_environment,
    read_borrowed_states,
    read_other_project,
    require_declared,
)
from waterclock.operations.formatting import instant_words
from waterclock.operations.project_opening import no_ledger_error, select_tables, zone_of
from waterclock.planner.query_ticks import read_tick
from waterclock.timelabel.label import label_of
from waterclock.timelabel.zone import parse_instant

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.engine.run_context import RunContext
    from waterclock.engine.spark.session import Sessions
    from waterclock.flow.declarations import Table
    from waterclock.ledger.read.revisions import CurrentState
    from waterclock.permissions.users_and_roles import Person
    from waterclock.selection import Labels


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """Selects the rows to compare: `tables` (as for `run`; empty: all that were made), `labels`, and the other side.

    `against` is another environment of the project, `as_known` an instant at which the project's own revisions are
    taken. Without either, each label that was made again is compared with its previous revision. `persons` limits the
    comparison to what a person sees, in the other environment and in this one.
    """

    tables: tuple[str, ...] = ()
    labels: str | None = None
    against: Project | None = None
    as_known: str | None = None
    options: ComparisonOptions = field(default_factory=ComparisonOptions)
    persons: tuple[Person, Person] | None = None


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A compared table, or the error because of which it could not be compared.

    `single` counts the labels without an earlier revision, which were not compared. RETAIN dropped the labels before
    `dropped_before` on one side. `held` are labels of which a rule holds rows that were not compared, and `held_before`
    those in the other environment.
    """

    name: str
    found: TableComparison | None
    error: WaterclockError | None = None
    single: int = 0
    dropped_before: datetime | None = None
    held: tuple[datetime, ...] = ()
    held_before: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The compared tables. `before` and `after` name both sides: "in prod", "in dev"."""

    before: str
    after: str
    env: str
    tables: tuple[ComparedTable, ...]
    against: str | None = None
    as_known: datetime | None = None

    @property
    def differs(self) -> bool:
        """Whether a label of a table differs."""
        return any(each.found is not None and each.found.differing for each in self.tables)

    @property
    def has_failed(self) -> bool:
        """Whether a table could not be compared."""
        return any(each.error is not None for each in self.tables)


def compare_tables(project: Project, request: ComparisonRequest, sessions: Sessions | None = None) -> Comparison:
    """Compare tables label by label. Given `sessions` are left open; no ledger and no storage is written.

    Equal labels are found in the ledgers alone; Spark is started only if labels must be read. Cost without Spark: 50 µs
    for each label and side, and a scan of the batches in SQL for a table that a branch borrows and that did not change.

    Raises E412 if one side was never made, E510 to E514 for the selection, E516 for a table that was never made, E518
    for labels that RETAIN dropped, E706 for a destination, E106 and E511 to E512 for the instant, and as
    `compare_table`. With several tables, errors of one table are part of the result.
    """
    found, labels = select_tables(project.flow, list(request.tables), request.labels)
    opened = sessions or sessions_of_queries(project, request.against)
    try:
        with open_workplace(project, sessions=opened, is_question=True) as work:
            names = open_comparison(work, request)
            is_one = bool(request.tables) and len(found.tables) == 1
            bounds = {name: bounds_of(work.flow.tables[name], labels.get(name)) for name in found.tables}
            others: OtherProject | None = None
            borrowed: Mapping[str, CurrentState] = {}
            if request.against is not None:
                if request.persons is None:
                    borrowed = read_borrowed_states(work, bounds)
                others = read_other_project(request.against, bounds, borrowed)
            compared = [
                ComparedTable(name, TableComparison(name, equal=borrowed[name].labels))
                if others is not None and name in others.same
                else _compare_one(names, name, bounds[name], labels.get(name), others, is_one=is_one)
                for name in found.tables
            ]
    finally:
        if sessions is None:
            opened.close()
    return Comparison(
        names.before,
        names.after,
        project.env,
        tuple(each for each in compared if each is not None),
        None if request.against is None else request.against.env,
        names.known,
    )


@dataclass(frozen=True, slots=True)
class ComparisonContext:
    """The project that is open, the tables in its ledger, the request, and the words for both sides."""

    work: RunContext
    request: ComparisonRequest
    known: datetime | None
    made: frozenset[str]

    @property
    def view(self) -> PersonsView:
        """What the person of the request sees."""
        return PersonsView(self.request.against or self.work.project, self.work.project, self.request.persons)

    @property
    def before(self) -> str:
        """The words for the side before: "in prod"."""
        if self.request.against is not None:
            return f"in {self.request.against.env}"
        if self.known is not None:
            return f"as known at {instant_words(self.known, zone_of(self.work.flow))}"
        return "in the previous revision"

    @property
    def after(self) -> str:
        """The words for the side after."""
        return f"in {self.work.project.env}" if self.request.against is not None else "now"


def open_comparison(work: RunContext, request: ComparisonRequest) -> ComparisonContext:
    """Find the tables in the ledger of a project, and the requested instant. Raises E412 if nothing has run."""
    made = frozenset(record.name for record in work.ledger.reads.tables())
    if not made:
        raise no_ledger_error()
    known = None if request.as_known is None else _read_instant(work, request.as_known, zone_of(work.flow))
    return ComparisonContext(work, request, known, made)


def _read_instant(work: RunContext, text: str, zone: str) -> datetime:
    """Read an instant, or the end of the window of TABLE@LABEL."""
    found = read_tick(text, work.flow, zone) if "@" in text else None
    return parse_instant(text.strip(), zone) if found is None else found


def bounds_of(table: Table, labels: Labels | None) -> Bounds:
    """Return the bounds of the selected labels of a table, by default of all."""
    if labels is None:
        return ALL
    low, high = labels.bounds(table.cadence)
    return low or BEGINNING, high or FOREVER


def _compare_one(
    names: ComparisonContext,
    name: str,
    bounds: Bounds,
    labels: Labels | None,
    others: OtherProject | None,
    *,
    is_one: bool,
) -> ComparedTable | None:
    """Compare one table.

    If several tables were selected, return None for a table that has nothing to compare, or that the person does not
    see.
    """
    work, against = names.work, names.request.against
    table = work.flow.tables[name]
    if not is_one and (table.kind is Kind.PUBLISH or not names.view.shows(name)):
        return None
    if is_one:
        names.view.require_shown(name)
        require_table(work.flow, name)
        if against is not None:
            require_declared(against, name)
    own = read_table_revisions(work.ledger, table, bounds) if name in names.made else TableRevisions()
    current = ComparedSide(names.after, table, work.lake, own.current(), own.dropped_before)
    other = _other_side(names, table, own, others)
    if not current.revisions and not other.revisions:
        if is_one:
            raise not_made_error(name, labels)
        return None
    single = 0
    if against is None and names.known is None:
        single = len(current.revisions) - len(other.revisions)
        current = _limit(current, lambda label: label in other.revisions)
    of_other = TableRevisions() if others is None else others.revisions.get(name, TableRevisions())
    held, held_before = (
        tuple(sorted(label for label in side.held if bounds[0] <= label < bounds[1])) for side in (own, of_other)
    )
    viewed = names.view.sides_of(name)
    if viewed is not None:
        single, held, held_before = 0, (), ()  # the ledger's facts are about all rows
    try:
        with naming_environment(None if against is None else work.project.env):
            current, other, dropped = _without_dropped(current, other, labels)
            found = compare_table(work, other, current, names.request.options, viewed=viewed, is_strict=is_one)
    except WaterclockError as error:
        if is_one:
            raise
        return ComparedTable(name, None, error, single=single, held=held, held_before=held_before)
    return ComparedTable(name, found, None, single, dropped, held, held_before)


def _other_side(
    names: ComparisonContext, table: Table, own: TableRevisions, others: OtherProject | None
) -> ComparedSide:
    """Return the side with which the current rows are compared."""
    against = names.request.against
    if against is not None and others is not None:
        of_other = others.revisions.get(table.name, TableRevisions())
        declared = against.flow.tables.get(table.name, table)
        found, dropped = of_other.current(), of_other.dropped_before
        return ComparedSide(names.before, declared, others.lake, found, dropped, against.env)
    found = own.before_current() if names.known is None else own.known_at(names.known)
    return ComparedSide(names.before, table, names.work.lake, found, own.dropped_before)


def _limit(side: ComparedSide, is_kept: Callable[[datetime], bool]) -> ComparedSide:
    return replace(side, revisions={label: each for label, each in side.revisions.items() if is_kept(label)})


def _without_dropped(
    current: ComparedSide, other: ComparedSide, labels: Labels | None
) -> tuple[ComparedSide, ComparedSide, datetime | None]:
    """Leave out the labels that RETAIN dropped on a side. Raises E518 if the requested labels start with such ones."""
    boundaries = [each.dropped_before for each in (current, other) if each.dropped_before is not None]
    if not boundaries:
        return current, other, None
    since = max(boundaries)
    low = None if labels is None else labels.bounds(current.table.cadence)[0]
    if low is not None and low < since:
        side = current if current.dropped_before == since else other
        raise WaterclockError(
            "E518",
            f"{current.table.name}@{label_of(low)} cannot be compared",
            where=f"{current.table.name}@{label_of(low)}",
            why=f"RETAIN has dropped its labels before {label_of(since)} {side.name}",
            fix=f"start at {label_of(since)}",
        )
    left_out = any(label < since for label in (*current.revisions, *other.revisions))
    limited = [_limit(side, lambda label: label >= since) for side in (current, other)]
    return limited[0], limited[1], since if left_out else None


def not_made_error(name: str, labels: Labels | None) -> WaterclockError:
    """Build the error for a table of which neither side has a batch."""
    return WaterclockError(
        "E516",
        f"no batch of {name} was made yet" if labels is None else f"no batch of {name} in {labels} was made yet",
        where=name,
        why="neither side has rows to compare",
        fix=f"`waterclock plan {name}` shows the due batches",
    )
