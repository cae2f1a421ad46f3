"""Opens a project for a command: its files, its ledger if there is one, and the instant to plan for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, folders_in, is_folder
from waterclock.flow.declarations import Flow, Secret, Table
from waterclock.flow.enums import Kind
from waterclock.flow.linked_projects import linked_tables
from waterclock.operations.read_only_ledger import read_ledger
from waterclock.planner.linked_projects import add_links
from waterclock.planner.planning import Planner
from waterclock.selection import Labels, Selection, parse_labels, select
from waterclock.timelabel.zone import parse_instant

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.dpl.resolve.schemas import RecordedColumns
    from waterclock.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class OpenedProject:
    """A project that was opened for reading. `ledger` is None if nothing has run yet: none is created."""

    project: Project
    ledger: Ledger | None
    planner: Planner
    snapshot: LedgerSnapshot
    now: datetime

    @property
    def flow(self) -> Flow:
        """The checked flow."""
        return self.project.flow

    @property
    def renames(self) -> Mapping[str, str]:
        """The tables that the next run will rename (WAS): maps each new name to the current name."""
        return {} if self.ledger is None else self.ledger.declared.pending_renames()

    @property
    def zone(self) -> str:
        """The time zone in which instants of the project are shown."""
        return zone_of(self.flow)


def open_project(folder: Path, env: str | None) -> Project:
    """Load and check a project. Raises ProjectErrors with all errors of the project."""
    from waterclock.connectors.registry import capabilities
    from waterclock.dpl.project import load_project

    return load_project(folder, env=env, capabilities=capabilities())


def open_checked(folder: Path, env: str | None, *, connect: bool = False) -> Project:
    """Load and check a project, with the columns that collects with open column lists had at their last run.

    A ledger on a server is read only with `connect`. No ledger is written.

    Raises ProjectErrors with all errors of the project.
    """
    from waterclock.connectors.registry import capabilities
    from waterclock.dpl.project import load_project

    return load_project(
        folder, env=env, capabilities=capabilities(), known=_read_stored_columns(folder, env, connect=connect)
    )


def columns_collected(project: Project) -> dict[str, dict[str, str]]:
    """Return the stored columns of collects with open column lists, which their statements do not declare."""
    tables = project.flow.tables.items()
    return columns_stored(
        project, [name for name, table in tables if table.kind is Kind.COLLECT and table.columns.is_open]
    )


def columns_stored(project: Project, names: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the columns and types of tables that ran before, as their last batches left them."""
    stored = _StoredColumns(project.storage, cache(partial(_renamed_folders_of, project)))
    return {name: dict(stored[name]) for name in names if name in stored}


@dataclass(frozen=True, slots=True)
class _StoredColumns(Mapping[str, Mapping[str, str]]):
    """The columns and types of the tables of a storage, each read from its log only on demand.

    `of_rows`: return the columns of the raw rows in the stage instead. For a TEMPORAL table they differ from its own.
    """

    storage: str
    folders: Callable[[], Mapping[str, str]]
    of_rows: bool = False

    def __getitem__(self, name: str) -> Mapping[str, str]:
        if not self._is_stored(name):
            raise KeyError(name)
        from waterclock.engine.query.stored_schemas import stored_columns, stored_row_columns
        from waterclock.storage.lake import Lake

        found = (stored_row_columns if self.of_rows else stored_columns)(
            Lake(self.storage, folders=self.folders()), name
        )
        if not found:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        tables = entry_path(self.storage, "tables")
        for schema in sorted(folders_in(tables)):
            for name in sorted(folders_in(tables / schema)):
                if self._is_stored(f"{schema}.{name}"):
                    yield f"{schema}.{name}"

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _is_stored(self, name: str) -> bool:
        from waterclock.storage.lake import Lake

        return is_folder(entry_path(Lake(self.storage, folders=self.folders()).folder(name), "_delta_log"))


def _read_stored_columns(folder: Path, env: str | None, *, connect: bool) -> RecordedColumns | None:
    """Return the stored columns of the project's tables, before the project has been checked."""
    from waterclock.dpl.config.model import read_config
    from waterclock.dpl.project import addresses
    from waterclock.dpl.project_files import read_project_file
    from waterclock.dpl.resolve.schemas import RecordedColumns

    try:
        config, _ = read_config(read_project_file(folder), env=env, root=folder)
    except (OSError, UnicodeDecodeError, WaterclockError):
        return None  # load_project reports it
    if config is None or "://" in config.environment.storage:
        return None
    storage = str(folder / config.environment.storage)
    folders = cache(partial(_read_renamed_folders, addresses(folder, config)[1], connect=connect))
    return RecordedColumns(_StoredColumns(storage, folders), _StoredColumns(storage, folders, of_rows=True))


def _renamed_folders_of(project: Project) -> Mapping[str, str]:
    """Return the folders of a project's renamed tables, or nothing if its ledger does not answer."""
    from waterclock.engine.ledger_opening import lake_of, open_ledger

    try:
        ledger = open_ledger(project)
        with ledger or nullcontext():
            return lake_of(project, ledger).folders
    except WaterclockError:
        return {}


def _read_renamed_folders(url: str | Secret, *, connect: bool) -> Mapping[str, str]:
    """Return the folders of renamed tables, or nothing if `read_ledger` does not read the ledger."""
    if isinstance(url, Secret):
        return {}
    return read_ledger(url, lambda ledger: ledger.declared.former().folders, connect=connect) or {}


@contextmanager
def open_read_only(folder: Path, env: str | None, now: str | None) -> Iterator[OpenedProject]:
    """Open a project for reading. Raises E421 if its ledger is gone, E422 if it is damaged."""
    from waterclock.engine.connections import connections_of
    from waterclock.engine.earlier_starts import snapshot_once_applied
    from waterclock.engine.ledger_opening import open_ledger
    from waterclock.engine.linked_projects import links_of
    from waterclock.operations.abandoned_claim_report import describe_abandoned_claims, mark_abandoned_claims

    project = open_project(folder, env)
    ledger = open_ledger(project)
    try:
        at = instant_of_question(project, now, ledger)
        snapshot = LedgerSnapshot() if ledger is None else snapshot_once_applied(ledger, project.flow, at)
        if linked_tables(project.flow):
            snapshot = add_links(snapshot, links_of(project, connections_of(project)).read_progress(ledger))
        snapshot = (
            snapshot if ledger is None else mark_abandoned_claims(snapshot, describe_abandoned_claims(ledger, snapshot))
        )
        yield OpenedProject(project, ledger, Planner(project.flow), snapshot, at)
    finally:
        if ledger is not None:
            ledger.close()


def now_of(text: str | None, flow: Flow, ledger: Ledger | None = None) -> datetime:
    """Return the instant to plan for: the given one, or else the ledger's clock, or else this machine's."""
    if text is not None:
        return parse_instant(text, zone_of(flow))
    return datetime.now(UTC) if ledger is None else ledger.now()


def instant_of_question(project: Project, text: str | None, ledger: Ledger | None) -> datetime:
    """Return the instant to plan for, as `now_of` does. For a branch, it is by default the tick of the branch.

    A branch makes no labels that end later.
    """
    if text is None and project.bases:
        from waterclock.engine.branching.branch_state import read_branch_state

        state = read_branch_state(project)
        if state is not None:
            return state.tick
    return now_of(text, project.flow, ledger)


def zone_of(flow: Flow) -> str:
    """Return the zone of most tables. It is used for instants without an offset."""
    zones = Counter(table.cadence.zone for table in flow.tables.values())
    return max(zones, key=lambda zone: (zones[zone], zone == "UTC"), default="UTC")


def no_ledger_error() -> WaterclockError:
    """Build the error for an operation that needs a ledger where none exists yet."""
    return WaterclockError(
        "E412", "there is no ledger yet", why="nothing has run", fix="`waterclock run` makes the due batches"
    )


def select_batches(
    flow: Flow, texts: list[str] | None, labels: str | None = None
) -> tuple[Selection, Mapping[str, Labels]]:
    """Do the same as `select_tables`, for commands that make batches or decide about them.

    The two tables of APART are made from the same rows, so whoever selects one of them selects both.
    """
    return select_tables(flow, texts, labels, has_both_parts=True)


def select_tables(
    flow: Flow, texts: list[str] | None, labels: str | None = None, *, has_both_parts: bool = False
) -> tuple[Selection, Mapping[str, Labels]]:
    """Return the selected tables, and the labels of each: those after `@`, or else `labels`. Raises E510 to E514.

    `has_both_parts`: as in `select`.
    """
    found = select(flow, *(texts or ()), has_both_parts=has_both_parts)
    try:
        common = None if labels is None else parse_labels(labels)
    except WaterclockError as error:
        if labels is not None and _is_table_selection(flow, labels):
            both = " ".join((*(texts or ()), labels))
            raise WaterclockError(
                error.code,
                error.what,
                why="it is a table, where labels of the tables before it are expected",
                fix=(
                    f"write several tables as one argument, in quotes: '{both}'; write labels after all of them, "
                    f"or after a table's @: {found.tables[-1]}@2013-01-05"
                ),
            ) from None
        raise
    if common is None:
        return found, dict(found.labels)
    return found, dict.fromkeys(found.tables, common) | dict(found.labels)


def _is_table_selection(flow: Flow, text: str) -> bool:
    try:
        return bool(select(flow, text).tables)
    except WaterclockError:
        return False


def known_label_bounds(at: OpenedProject, table: Table, labels: Labels) -> tuple[datetime, datetime]:
    """Return the bounds of the selected labels that a table has, or had before its START was moved. Raises E513."""
    start = at.planner.starts(at.snapshot, at.now)[table.name]
    oldest = None if at.ledger is None else at.ledger.past.oldest_label(table.name)
    begin = start if oldest is None else min(start, oldest)
    return labels.limit_to(table, begin, max(table.cadence.last_due(at.now), begin))


def one_table(flow: Flow, text: str) -> tuple[str, Labels | None]:
    """Return the one table that a text selects, and its labels. Raises E510 to E514, E515 for several tables."""
    found = select(flow, text)
    if len(found.tables) != 1:
        raise WaterclockError(
            "E515",
            f"{text} matches {len(found.tables)} tables, and the command takes one",
            why=f"they are {', '.join(found.tables[:5])}{', …' if len(found.tables) > 5 else ''}",
            fix=f"name one of them, such as {found.tables[0]}",
        )
    name = found.tables[0]
    return name, found.labels.get(name)
