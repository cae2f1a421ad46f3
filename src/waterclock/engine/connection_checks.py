"""Tests the systems that an environment uses before a run needs them: ledger, storage, sources, destinations, Spark."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from waterclock.connectors.delivering import Deliverer, ReachableDestination
from waterclock.connectors.interface import EachCollector
from waterclock.connectors.sql.changed_windows import change_column_of
from waterclock.connectors.sql.privileges import (
    PrivilegedDestination,
    PrivilegedSource,
    SourceLogin,
    describe_extra,
)
from waterclock.dpl.project import Project
from waterclock.engine.connections import Connections, connections_of
from waterclock.engine.ledger_opening import ledger_url, open_ledger
from waterclock.engine.spark.errors import to_error
from waterclock.engine.spark.keys import KeysOfProject
from waterclock.engine.spark.session import Sessions
from waterclock.engine.spark.settings import settings_of
from waterclock.engine.storage_access import reach_storage
from waterclock.errors import WaterclockError
from waterclock.files.object_stores import is_remote
from waterclock.flow.declarations import Connection, Table
from waterclock.flow.enums import Batching, Mode
from waterclock.flow.key_connections import CURRENT
from waterclock.ledger.store.locations import place_of, redact_url_text
from waterclock.secrets.reader import Secrets
from waterclock.storage.lake import require_put_if_absent


@dataclass(frozen=True, slots=True)
class ConnectionTest:
    """The result of one connection test.

    `description` briefly describes the system; `error` is the reason why it cannot be used. `kind` is ledger, storage,
    source, destination, login, keys or spark. `name` is the ledger's URL or the storage's path, the table of a source
    or destination, or the connection with the login or the keys. `warning` is a problem that does not prevent its use.
    """

    kind: str
    name: str
    description: str
    seconds: float
    error: WaterclockError | None = None
    warning: WaterclockError | None = None

    @property
    def is_ok(self) -> bool:
        """Whether the system can be used."""
        return self.error is None


def probes(project: Project) -> Iterator[ConnectionTest]:
    """Test each system in turn, even if earlier tests failed. Spark is last because it takes seconds to start.

    All tests only read, except that one file is created in the storage and removed again.
    """
    yield _run_probe("ledger", _ledger_name(project), lambda: _check_ledger(project))
    yield _run_probe("storage", project.storage, lambda: _check_storage(project))
    connections = connections_of(project)
    logins: dict[str, list[SourceLogin]] = {}
    for table in project.flow.tables.values():
        if table.source is not None:
            yield _run_probe("source", table.name, partial(_check_source, connections, table, logins))
        if table.destination is not None:
            yield _run_probe("destination", table.name, partial(_check_destination, connections, project, table))
    written = {table.destination.connection for table in project.flow.tables.values() if table.destination is not None}
    for name, found in logins.items():
        if name not in written:
            yield _login(project.flow.connections[name], found)
    keys = KeysOfProject.from_flow(project.flow, Secrets.from_places(project.secrets))
    for name in keys.connections:
        yield _run_probe("keys", name, partial(_check_keys, keys.only(name)))
    yield _run_probe("spark", "Spark", lambda: _check_spark(project))


def _run_probe(kind: str, name: str, ask: Callable[[], str]) -> ConnectionTest:
    begun = time.perf_counter()
    try:
        description = ask()
    except Exception as raised:  # noqa: BLE001 - a failure of one test does not stop the others
        error = to_error(raised, where=name)
        return ConnectionTest(kind, name, error.what, time.perf_counter() - begun, error)
    return ConnectionTest(kind, name, description, time.perf_counter() - begun)


def _ledger_name(project: Project) -> str:
    try:
        return redact_url_text(ledger_url(project))
    except WaterclockError:
        return "the ledger"


def _check_ledger(project: Project) -> str:
    ledger = open_ledger(project)
    if ledger is None:
        place_of(ledger_url(project))
        return "does not exist yet: the first run creates it"
    with ledger:
        return f"answers; its time is {ledger.now():%Y-%m-%d %H:%M:%SZ}"


def _check_storage(project: Project) -> str:
    reach_storage(project)
    require_put_if_absent(project.storage)
    if is_remote(project.storage):
        return "can be written, and supports conditional puts"
    return f"can be written, {shutil.disk_usage(project.storage).free / 1e9:.0f} GB free"


def _check_source(connections: Connections, table: Table, logins: dict[str, list[SourceLogin]]) -> str:
    if table.source is None:
        raise AssertionError(f"{table.name} has no source")
    unit = connections.resolve_unit(table.source.unit)
    collector = connections.collector(unit.connection)
    if table.each is not None and isinstance(collector, EachCollector):
        collector.reach_each(unit)  # the source answers for single rows only
        return f"{unit} answers, and is queried for each row of {table.each.table}"
    clock = collector.clock(unit)
    if isinstance(collector, PrivilegedSource):
        login = collector.check_privileges(unit, has_changes=table.source.batching is Batching.CHANGES)
        if login is not None:
            logins.setdefault(unit.connection, []).append(login)
    columns = collector.schema(unit)
    changed = table.source.changed
    if columns is not None and changed is not None and changed.column is not None:
        change_column_of(changed.column, list(columns), unit)
    parts = [f"{unit} answers"]
    if columns is not None:
        parts.append(f"{len(columns)} {'column' if len(columns) == 1 else 'columns'}")
    if clock is not None:
        parts.append(f"its clock is at {clock:%Y-%m-%d %H:%MZ}")
    return ", ".join(parts)


def _check_destination(connections: Connections, project: Project, table: Table) -> str:
    if table.destination is None:
        raise AssertionError(f"{table.name} has no destination")
    unit = connections.resolve_unit(table.destination)
    if not project.delivers(table):
        return f"{unit} is not checked: {project.why_not_delivered(unit.connection)}"
    deliverer: Deliverer = connections.deliverer(unit.connection)
    if isinstance(deliverer, ReachableDestination):
        deliverer.reach(unit)
    if isinstance(deliverer, PrivilegedDestination):
        deliverer.require_privileges(unit, is_merge=table.mode is Mode.MERGE)
    newest = deliverer.last(unit, project.flow.project, table.name)
    return f"{unit} answers, {f'{newest.label_text} was delivered last' if newest else 'nothing was delivered yet'}"


def _login(connection: Connection, logins: list[SourceLogin]) -> ConnectionTest:
    """Warn if a connection is used only for collecting, and its login has more privileges than that requires."""
    extra = describe_extra(logins)
    if extra is None:
        return ConnectionTest("login", connection.name, "has no privilege that collecting does not need", 0.0)
    what = f"the login of {connection.name} can do more than collect"
    warning = WaterclockError("W206", what, where=str(connection.place), why=extra.why, fix=extra.fix)
    return ConnectionTest("login", connection.name, what, 0.0, warning=warning)


def _check_keys(keys: KeysOfProject) -> str:
    [connection] = keys.connections.values()
    names = sorted({key.name for key in keys.derive().values()})
    return f"has the keys {', '.join(names)}, and {connection.options[CURRENT]} is current"


def _check_spark(project: Project) -> str:
    settings = settings_of(project)
    sessions = Sessions(work_folder=project.work_folder / "spark", settings=settings)
    try:
        spark = sessions.root()
        spark.range(1).count()
        at = settings.connect or spark.conf.get("spark.master")
        return f"answers at {at}, {spark.version}"
    finally:
        sessions.close()
