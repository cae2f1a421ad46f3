"""Reads another environment for a comparison, and determines the rows and columns that a person sees on both sides."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from waterclock.batches.former_names import is_borrowed
from waterclock.batches.ledger_snapshot import FOREVER
from waterclock.dpl.adhoc import no_table_error
from waterclock.dpl.query.visible_flow import show_flow
from waterclock.engine.ledger_opening import ledger_url, require_ledger_not_lost
from waterclock.engine.query.compared_revisions import Bounds, TableRevisions, read_table_revisions
from waterclock.engine.query.table_comparison import ViewedSides
from waterclock.engine.storage_access import reach_storage
from waterclock.errors import WaterclockError
from waterclock.flow.table_visibility import TableVisibility, form_of, grants_of
from waterclock.similar_names import did_you_mean
from waterclock.storage.lake import Lake

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.engine.run_context import RunContext
    from waterclock.flow.declarations import Table
    from waterclock.flow.grants import Grant
    from waterclock.ledger.ledger import Ledger
    from waterclock.ledger.read.revisions import CurrentState
    from waterclock.permissions.users_and_roles import Person


R = TypeVar("R")
_COMMAND = re.compile(r"`waterclock (?![^`]*--env)([^`]*)`")


@contextmanager
def naming_environment(env: str | None) -> Iterator[None]:
    """Name an environment in the commands of raised fixes. Commands that name one already keep theirs."""
    try:
        yield
    except WaterclockError as error:
        if env is not None and error.fix is not None:
            error.fix = _COMMAND.sub(lambda found: f"`waterclock {found[1]} --env {shlex.quote(env)}`", error.fix)
        raise


@dataclass(frozen=True, slots=True)
class OtherProject:
    """The storage and the revisions of another environment, read at one moment.

    The tables in `same` have exactly the revisions that a branch borrows, so they are not in `revisions`.
    """

    lake: Lake
    revisions: Mapping[str, TableRevisions]
    same: frozenset[str] = frozenset()


def read_other_project(
    other: Project, bounds: Mapping[str, Bounds], borrowed: Mapping[str, CurrentState]
) -> OtherProject:
    """Read the revisions of an environment's tables from its ledger. Raises as `query_other_ledger`.

    `borrowed` are states of tables within the bounds, in the ledger of a branch that borrows them: only the revisions
    of those with another state are read.
    """

    def read(ledger: Ledger) -> OtherProject:
        known = {record.name for record in ledger.reads.tables()} & other.flow.tables.keys()
        same = frozenset(
            name
            for name, state in borrowed.items()
            if name in known
            and _shows_all_labels(ledger, other.flow.tables[name])
            and ledger.reads.current_state(name, *bounds[name]) == state
        )
        found = {
            name: read_table_revisions(ledger, other.flow.tables[name], of)
            for name, of in bounds.items()
            if name in known - same
        }
        return OtherProject(Lake(other.storage, folders=ledger.declared.former().folders), found, same)

    return query_other_ledger(other, read)


def read_borrowed_states(work: RunContext, bounds: Mapping[str, Bounds]) -> dict[str, CurrentState]:
    """Map the tables that a branch borrows to the states of their labels.

    Tables without any, with labels that RETAIN dropped, or with held labels are left out.
    """
    reads = work.ledger.reads
    names = [record.name for record in reads.tables() if record.name in bounds and is_borrowed(record.location)]
    states = {
        name: reads.current_state(name, *bounds[name])
        for name in names
        if _shows_all_labels(work.ledger, work.flow.tables[name])
    }
    return {name: state for name, state in states.items() if state.labels}


def _shows_all_labels(ledger: Ledger, table: Table) -> bool:
    """Return whether a comparison has no labels to report of a table that were dropped or that a rule holds."""
    return (
        table.retain is None
        and ledger.maintenance.drop_boundary(table.name, by=FOREVER) is None
        and not ledger.reads.held_labels(table.name)
    )


def query_other_ledger(other: Project, ask: Callable[[Ledger], R]) -> R:
    """Return the answer of an environment's ledger, which is opened read-only. The answer is not None.

    Raises E402 if other code wrote it last, E412 if there is none, E421 if it is lost, E422 if it is damaged, E425 if
    it was moved. The fixes name the environment.
    """
    from waterclock.ledger.ledger import Ledger
    from waterclock.ledger.store.read_only import OlderSchema

    def ask_by_current_names(ledger: Ledger) -> R:
        ledger.maintenance.require_not_moved()
        ledger.declared.apply_pending_renames(other.flow)
        return ask(ledger)

    try:
        with naming_environment(other.env):
            reach_storage(other)
            found = Ledger.query(ledger_url(other), ask_by_current_names)
            if found is None:
                require_ledger_not_lost(other)
    except OlderSchema as older:
        raise WaterclockError(
            "E402",
            f"the ledger of {other.env} was written by an older version",
            where=f"[env.{other.env}]",
            why=f"its schema is {older.found}, this version reads {older.known}",
            fix=f"`waterclock run --env {other.env}` with this version upgrades it",
        ) from older
    if found is None:
        raise WaterclockError(
            "E412",
            f"there is no ledger of {other.env} yet",
            where=f"[env.{other.env}]",
            why="nothing has run there",
            fix=f"`waterclock run --env {other.env}` makes the due batches",
        )
    return found


def require_declared(other: Project, name: str) -> None:
    """Raise E511 if an environment does not declare a table."""
    if name not in other.flow.tables:
        raise WaterclockError(
            "E511",
            f"there is no table {name} in {other.env}",
            where=f"[env.{other.env}]",
            fix=did_you_mean(name, other.flow.tables),
        )


@dataclass(frozen=True, slots=True)
class PersonsView:
    """Determines the tables, rows and columns that a person sees on both sides of a comparison.

    Without `persons`, the owner of the project sees all.
    """

    before: Project
    after: Project
    persons: tuple[Person, Person] | None

    def shows(self, name: str) -> bool:
        """Return whether the person may see rows of a table, on each side that declares it."""
        if self.persons is None:
            return True
        return all(
            form_of(project.flow, person, name) is not TableVisibility.NONE
            for project, person in zip((self.before, self.after), self.persons, strict=True)
            if name in project.flow.tables
        )

    def require_shown(self, name: str) -> None:
        """Raise E511, as for a table that does not exist, if the person may not see a table."""
        if self.persons is not None and not self.shows(name):
            raise no_table_error(name, show_flow(self.after.flow, self.persons[1]))

    def sides_of(self, name: str) -> ViewedSides | None:
        """Return the grants of the person on a table, on both sides; None if they see all of it."""
        if self.persons is None:
            return None
        before, after = (
            _granted(project, person, name)
            for project, person in zip((self.before, self.after), self.persons, strict=True)
        )
        return None if before is None and after is None else ViewedSides(before, after)


def _granted(project: Project, person: Person, name: str) -> tuple[Person, Sequence[Grant]] | None:
    grants = grants_of(project.flow, person, name)
    return None if grants is None else (person, grants)
