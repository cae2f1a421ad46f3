"""Runs the checks of a project and prints their result."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from waterclock.cli.views.error_card import flatten_errors, show_errors
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.declarations import Connection, Flow, Unit
from waterclock.flow.key_connections import KEYS
from waterclock.flow.linked_projects import linked_tables
from waterclock.operations.formatting import count_words
from waterclock.operations.project_opening import open_checked, open_project

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.dpl.project import Project
    from waterclock.engine.connection_checks import ConnectionTest
    from waterclock.json_models.setup import CheckAnswer
    from waterclock.ledger.ledger import Ledger

_OF_BATCHES = frozenset({"E318", "E405"})  # the flow does not fit the batches of existing tables
_OF_A_TABLE = "E405"  # stops one table and its readers, but not the run
_PLACE = re.compile(r"(?P<file>.*?):(?P<line>\d+)(?::(?P<column>\d+))?$")


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The result of `check`: the flow if there are no errors, otherwise all errors in the order of their places.

    A flow without errors can have `warnings`, also sorted. `is_refused` is true if every run would reject the whole
    flow. Otherwise the errors affect single tables, or the alerts and lineage events of runs.
    """

    flow: Flow | None
    env: str | None
    errors: tuple[WaterclockError, ...]
    seconds: float
    warnings: tuple[WaterclockError, ...] = ()
    project: Project | None = None
    is_refused: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the result as a dictionary for JSON. Its `tables` counts the declarations by kind."""
        from waterclock.json_models.setup import CheckPart

        return CheckPart.build(
            ok=not self.errors,
            env=self.env,
            errors=self.errors,
            warnings=self.warnings,
            tables=_count_kinds(self.flow),
            seconds=round(self.seconds, 3),
        ).to_json()

    def to_answer(self, tried: Sequence[ConnectionTest] = ()) -> CheckAnswer:
        """Build the JSON answer with the result and with the connections that were tried."""
        from waterclock.json_models.setup import CheckAnswer

        is_ok = not self.errors if not tried else all(probe.error is None for probe in tried)
        warnings = [*self.warnings, *(probe.warning for probe in tried if probe.warning is not None)]
        return CheckAnswer.build(**self.to_json() | {"ok": is_ok, "warnings": warnings}, connections=tried)


def check_project(folder: Path, env: str | None, *, connect: bool = False) -> CheckOutcome:
    """Check a project, and return its errors instead of raising them.

    Without `connect`, a ledger on a server is not read.
    """
    from waterclock.dpl.branch_settings import find_unknown_sandboxes
    from waterclock.dpl.config.file_name import FILE
    from waterclock.dpl.query.query_warnings import query_warnings
    from waterclock.engine.ledger_opening import require_valid_ledger_url
    from waterclock.operations.compatibility import compatibility_errors
    from waterclock.operations.retirements import retirement_errors

    begun = time.perf_counter()
    try:
        project = open_checked(folder, env, connect=connect)
    except WaterclockError as error:
        errors = sort_errors(flatten_errors([error]))
        is_refused = _is_refused(folder, env)
        return CheckOutcome(None, env, tuple(errors), time.perf_counter() - begun, is_refused=is_refused)
    try:
        require_valid_ledger_url(project)
    except WaterclockError as error:
        error.where = error.where or f"ledger, below [env.{project.env}] in {FILE}"
        return CheckOutcome(None, env, (error,), time.perf_counter() - begun, is_refused=True)
    late = retirement_errors(project, datetime.now(UTC), connect=connect)
    of_columns = [*compatibility_errors(project, connect=connect), *late]
    of_batches = _find_ledger_errors(project, connect=connect)
    of_setup = [
        *_find_missing_drivers(project),
        *_find_path_errors(project),
        *_find_target_errors(project),
        *_find_lineage_errors(project),
        *find_unknown_sandboxes(project),
    ]
    if errors := [*_find_link_errors(project), *of_columns, *of_batches, *of_setup]:
        is_refused = any(error.code != _OF_A_TABLE for error in of_batches)
        return CheckOutcome(None, env, tuple(sort_errors(errors)), time.perf_counter() - begun, is_refused=is_refused)
    broken, doubtful = _find_broken_rules(project, connect=connect)
    found = [*query_warnings(project.flow), *_find_source_warnings(project), *_find_permission_warnings(project)]
    warnings = tuple(sort_errors([*found, *doubtful]))
    seconds = time.perf_counter() - begun
    if broken:
        return CheckOutcome(None, env, tuple(sort_errors(broken)), seconds, warnings)
    return CheckOutcome(project.flow, project.env, (), seconds, warnings, project)


def _find_broken_rules(
    project: Project, *, connect: bool
) -> tuple[Sequence[WaterclockError], Sequence[WaterclockError]]:
    """Return the errors and the warnings of the project's own rules."""
    from waterclock.dpl.config.file_name import RULES_FOLDER

    if not (project.root / RULES_FOLDER).is_dir():
        return (), ()
    from waterclock.operations.project_rules import check_project_rules

    found = check_project_rules(project, connect=connect)
    return found.errors, found.warnings


def _is_refused(folder: Path, env: str | None) -> bool:
    """Return whether a run would reject the project too. Unlike `check`, a run does not compare columns."""
    try:
        open_project(folder, env)
    except WaterclockError:
        return True
    return False


def _find_link_errors(project: Project) -> list[WaterclockError]:
    """Return the errors of tables of linked projects. Their code is imported only if such a table is collected."""
    if not linked_tables(project.flow):
        return []
    from waterclock.engine.linked_projects import link_errors

    return link_errors(project)


def _find_ledger_errors(project: Project, *, connect: bool) -> list[WaterclockError]:
    """Return the errors of the flow, or of single tables, that do not fit the batches in the ledger. Writes nothing."""
    from waterclock.engine.ledger_opening import ledger_url
    from waterclock.operations.read_only_ledger import read_ledger

    def find_errors(ledger: Ledger) -> list[WaterclockError]:
        try:
            ledger.declared.require_valid_renames(project.flow)
        except WaterclockError as error:
            return [one for one in flatten_errors([error]) if one.code in _OF_BATCHES]
        ledger.declared.apply_pending_renames(project.flow)  # a renamed table is compared under its new name
        return list(ledger.declared.refused_tables(project.flow).values())

    return read_ledger(ledger_url(project), find_errors, connect=connect) or []


def _find_missing_drivers(project: Project) -> Iterator[WaterclockError]:
    """Yield an error for each missing driver of a connection that a run of the environment opens."""
    from waterclock.connectors.drivers import require_driver
    from waterclock.connectors.registry import capabilities

    known, tables = capabilities(), project.flow.tables.values()
    sources = {table.source.unit.connection for table in tables if table.source is not None}
    delivered = (table.destination for table in tables if project.delivers(table))
    destinations = {unit.connection for unit in delivered if unit is not None}
    keys = {name for name, each in project.flow.connections.items() if each.type == KEYS}
    for name in sorted(sources | keys | destinations):
        connection = project.flow.connections[name]
        try:
            require_driver(known[connection.type], name, str(connection.place))
        except WaterclockError as error:
            yield error


def _find_path_errors(project: Project) -> Iterator[WaterclockError]:
    """Yield the errors in the paths of collected sources, which every run would raise."""
    for unit, _, known in _list_units(project):
        try:
            if known.require_path is not None:
                known.require_path(unit.path)
        except WaterclockError as error:
            yield error.at(str(unit.place))


def _find_source_warnings(project: Project) -> Iterator[WaterclockError]:
    """Yield the connectors' warnings about collected sources. Cost: for files, a listing of their folders."""
    for unit, connection, known in _list_units(project):
        found = None if known.warning is None else known.warning(project.root, connection.options, unit)
        if found is not None:
            yield WaterclockError(found.code, found.what, where=str(unit.place), why=found.why, fix=found.fix)


def _find_permission_warnings(project: Project) -> Iterator[WaterclockError]:
    """Yield a warning for each folder, file with data and private key that other users of this machine can access."""
    from waterclock.dpl.project import WORK
    from waterclock.engine.ledger_opening import ledger_url
    from waterclock.files.object_stores import is_remote
    from waterclock.permissions.open_places import open_place_warnings
    from waterclock.storage.lake import vault_folder, vault_subjects

    places = [project.work_folder, project.root / WORK, project.secrets.folder]
    if not is_remote(project.storage):
        vaults = (vault_folder(project.storage, subject) for subject in vault_subjects(project.storage))
        places += [Path(project.storage), *map(Path, vaults)]
    places += _list_private_keys(project)
    try:
        url = ledger_url(project)
    except WaterclockError:
        url = ""  # its secret is missing: other checks report that
    if (file := url.removeprefix("sqlite:///")) != url:
        places += [Path(file), Path(f"{file}-wal")]
    yield from open_place_warnings(places)


def _list_private_keys(project: Project) -> Iterator[Path]:
    """Yield the files with the private keys of client certificates: those of connections and of Vault."""
    for connection in project.flow.connections.values():
        if "certificate" in connection.options and "key" in connection.options:
            yield project.root / str(connection.options["key"])
    if project.secrets.vault is not None and project.secrets.vault.key is not None:
        yield project.secrets.vault.key


def _list_units(project: Project) -> Iterator[tuple[Unit, Connection, Capabilities]]:
    """Yield each table or path that is collected, with its connection and its capabilities. Queries are left out."""
    from waterclock.connectors.registry import capabilities

    known, connections = capabilities(), project.flow.connections
    for table in project.flow.tables.values():
        unit = table.source.unit if table.source is not None else None
        if unit is not None and unit.query is None and unit.connection in connections:
            connection = connections[unit.connection]
            yield unit, connection, known[connection.type]


def _find_target_errors(project: Project) -> list[WaterclockError]:
    """Return the errors of alert targets that cannot be used. apprise is imported only if a target needs it."""
    if not project.alerts.is_on:
        return []
    from waterclock.alerts.targets import target_errors
    from waterclock.secrets.reader import Secrets

    return target_errors(project.alerts.targets.values(), Secrets.from_places(project.secrets))


def _find_lineage_errors(project: Project) -> list[WaterclockError]:
    """Return an error if the library that creates lineage events is missing. The library is not imported."""
    if not project.openlineage.is_on:
        return []
    from waterclock.openlineage.sending import sink_error

    error = sink_error(project)
    return [] if error is None else [error.at(project.openlineage.place)]


def sort_errors(errors: Iterable[WaterclockError]) -> list[WaterclockError]:
    """Sort errors by file, line and column, those without a place first."""
    return sorted(errors, key=_place_key)


def print_checked(to: Console, found: CheckOutcome) -> None:
    """Print every error or warning as a card, and a summary line."""
    if found.errors:
        show_errors(to, [*found.warnings, *found.errors])
        files = {match["file"] for error in found.errors if (match := _PLACE.match(error.where or ""))}
        where = f" in {count_words(len(files), 'file')}" if files else ""
        to.print()
        stops = "; nothing can run" if found.is_refused else ""
        to.print(Text.assemble((count_words(len(found.errors), "error"), "fail.loud"), f"{where}{stops}"))
        return
    if found.warnings:
        show_errors(to, found.warnings)
        to.print()
    kinds = _count_kinds(found.flow)
    counts = ", ".join(count_words(count, *_NOUNS[kind]) for kind, count in kinds.items() if count)
    counted = f", {count_words(len(found.warnings), 'warning')}" if found.warnings else ""
    to.print(Text.assemble(("no errors", "ok.loud"), f"{counted}: {counts or 'no tables'} in env {found.env}"))


_NOUNS = {
    "collect": ("collect",),
    "transform": ("transform",),
    "publish": ("publish", "publishes"),
    "view": ("view",),
    "function": ("function",),
    "connection": ("connection",),
}


def _count_kinds(flow: Flow | None) -> dict[str, int]:
    if flow is None:
        return dict.fromkeys(_NOUNS, 0)
    from waterclock.dpl.resolve.connections import PROJECT

    kinds = Counter(table.kind.value for table in flow.tables.values())
    return {kind: kinds[kind] for kind in ("collect", "transform", "publish")} | {
        "view": len(flow.views),
        "function": len(flow.functions),
        "connection": len(flow.connections.keys() - {PROJECT}),  # declared implicitly
    }


def _place_key(error: WaterclockError) -> tuple[str, int, int]:
    match = _PLACE.match(error.where or "")
    if match is None:
        return error.where or "", 0, 0
    return match["file"], int(match["line"]), int(match["column"] or 0)
