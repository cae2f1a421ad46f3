"""Records a flow's declarations: its tables, the fingerprint that claims must have, and each table's START."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from waterclock.batches.audit_records import DECLARED
from waterclock.batches.former_names import folder_of
from waterclock.batches.ledger_snapshot import RECOMPUTE, verb_of_earlier_start
from waterclock.errors import raise_all
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind
from waterclock.ledger import ledger_errors
from waterclock.ledger.read.signatures import SIGNATURE, refused_among, signature_differences, signature_of
from waterclock.ledger.store.database import LedgerDatabase, Write
from waterclock.ledger.store.schema import batches, events, flows, ledger, tables
from waterclock.ledger.write.decisions import add_restate_requests
from waterclock.ledger.write.renaming import free_location, pending_renames, rename_tables

_PROJECT = sa.select(ledger.c.project, ledger.c.flow)
_TABLES = sa.select(tables)
_ADD_TABLES = sa.insert(tables)
_UPDATE_TABLE = (
    sa.update(tables)
    .where(tables.c.name == sa.bindparam("of"))
    .values({name: sa.bindparam(name) for name in (*SIGNATURE, "is_declared", "start")})
)
_UNDECLARE = sa.update(tables).where(tables.c.name == sa.bindparam("of")).values(is_declared=False)
_REQUESTED_LABELS = sa.select(batches.c.label).where(
    batches.c.table_name == sa.bindparam("of"), batches.c.requested.is_not(None)
)
_DELETE_BATCHES = sa.delete(batches).where(batches.c.table_name == sa.bindparam("of"))
_APPLY = sa.update(ledger).values(project=sa.bindparam("project_"), flow=sa.bindparam("flow_"))
_NEWEST_FLOW = sa.select(flows).order_by(flows.c.number.desc()).limit(1)
_NEWEST_OF_EACH = (
    sa.select(sa.func.max(events.c.id))
    .where(events.c.table_name.in_(sa.select(tables.c.name)), events.c.label.is_(None), events.c.kind == DECLARED)
    .group_by(events.c.table_name)
)
_DECLARED = sa.select(events.c.table_name, events.c.data).where(events.c.id.in_(_NEWEST_OF_EACH))
_ADD_FLOW = sa.insert(flows)
_START = sa.select(tables.c.start).where(tables.c.name == sa.bindparam("of"))
_SET_START = sa.update(tables).where(tables.c.name == sa.bindparam("of")).values(start=sa.bindparam("at"))
_NAMES = sa.select(tables.c.name)


@dataclass(frozen=True, slots=True)
class AppliedFlow:
    """The `number`-th flow applied here. Claims must have its fingerprint. `at` is a time of the ledger's clock."""

    number: int
    fingerprint: str
    at: datetime


def apply(
    database: LedgerDatabase,
    flow: Flow,
    *,
    who: str,
    now: datetime,
    runner: str,
    statements: Callable[[], Mapping[str, str]] = dict,
    reading_back: Callable[[], Mapping[str, Collection[datetime]]] = dict,
) -> AppliedFlow:
    """Record a flow as the applied one, with its tables and statements. Write nothing if it is applied already.

    `statements` returns the text of each table's statement; new texts are stored. `reading_back` returns, by table, the
    labels, done or being made, that read further back under the new flow. A request to make them again is recorded.
    `reading_back` is called once more after the flow is applied, for batches that were claimed under the former flow
    meanwhile. A table whose batches would get another meaning (E405) keeps its stored kind, mode, cadence and keys.
    Raises E404 for a ledger of another project, and the errors of `rename_tables`.
    """
    found = read_applied_flow(database)
    if found is not None and found.fingerprint == flow.fingerprint:
        with database.read() as connection:
            row = connection.execute(_PROJECT).one()
        _check_project(row.project, flow)
        if row.flow == flow.fingerprint:  # otherwise `rebuild --all` has moved in tables of another flow
            return found
    names, since = database.current_names, database.renamed_at
    again = reading_back()
    database.use_names({})  # `rename_tables` replaces the stored names: nothing is to be translated
    try:
        with database.write() as write:
            _check_project(write.execute(_PROJECT).scalar(), flow)
            renamed = rename_tables(write, flow, who)
            _write_tables(write, flow, who)
            declared = {row.table_name: row.data for row in write.execute(_DECLARED)}
            newest = write.execute(_NEWEST_FLOW).first()
            number = 1 if newest is None else newest.number + 1
            write.execute(_APPLY, {"project_": flow.project, "flow_": flow.fingerprint})
            values = {"number": number, "fingerprint": flow.fingerprint, "now": now, "who": who, "runner": runner}
            write.execute(_ADD_FLOW, values | {"applied_at": write.at})
            for name, text in statements().items():
                declaration = {"code": flow.tables[name].fingerprint, "statement": text}
                if declared.get(name) != declaration:
                    write.log(DECLARED, who=who, table=name, data=declaration)
            _request_again(write, flow, again, who)
            write.log("applied", who=who, data={"number": number, "flow": flow.fingerprint, "runner": runner})
            found = AppliedFlow(number, flow.fingerprint, write.at)
    except BaseException:
        database.use_names(names, since)
        raise
    since_then = {name: set(labels).difference(again.get(name, ())) for name, labels in reading_back().items()}
    if any(since_then.values()):
        with database.write() as write:
            _request_again(write, flow, since_then, who)
    for name, was in renamed.items():
        database.report(f"{was} is renamed to {name}, with its history")
    return found


def _request_again(write: Write, flow: Flow, again: Mapping[str, Collection[datetime]], who: str) -> None:
    for name, labels in again.items():
        verb, why = verb_of_earlier_start(flow.tables[name]), "START of their inputs moved back"
        add_restate_requests(write, name, labels, verb, who=who, why=why, command=RECOMPUTE)


def require_valid_renames(database: LedgerDatabase, flow: Flow) -> None:
    """Raise the errors that `rename_tables` would raise for the WAS declarations of a flow; change nothing."""
    names, since = database.current_names, database.renamed_at
    database.use_names({})
    try:
        with database.read() as connection:
            _, errors = pending_renames(connection, flow, {row.name for row in connection.execute(_TABLES)})
    finally:
        database.use_names(names, since)
    raise_all(errors)


def read_applied_flow(database: LedgerDatabase) -> AppliedFlow | None:
    """Return the flow whose fingerprint claims must have; None before a flow was applied."""
    with database.read() as connection:
        row = connection.execute(_NEWEST_FLOW).first()
    return None if row is None else AppliedFlow(row.number, row.fingerprint, row.applied_at)


def set_starts(database: LedgerDatabase, starts: Mapping[str, datetime], *, who: str) -> None:
    """Record the first windows of tables whose START is not declared, if not recorded yet. Raises E412."""
    if not starts:
        return
    with database.write() as write:
        for table, instant in starts.items():
            row = write.execute(_START, {"of": table}).first()
            if row is None:
                raise ledger_errors.unknown_table(table, write.execute(_NAMES).scalars())
            if row.start is None:
                write.execute(_SET_START, {"of": table, "at": instant})
                write.log("start set", who=who, table=table, labels=[instant])


def location_of(table: Table) -> str:
    """Return the folder of a table, relative to the storage. A publish has its stage outside of all tables."""
    return f"publish/{table.name.replace('.', '/')}" if table.kind is Kind.PUBLISH else folder_of(table.name)


def _check_project(known: str | None, flow: Flow) -> None:
    if known is not None and known != flow.project:
        raise ledger_errors.other_project(known, flow.project)


def _write_tables(write: Write, flow: Flow, who: str) -> None:
    known = {row.name: row for row in write.execute(_TABLES)}
    taken = {row.location for row in known.values()}
    refused = refused_among(write.connection, flow, known)
    new: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    for table in flow.tables.values():
        signature = signature_of(table)
        row = known.get(table.name)
        if row is None:
            location = free_location(location_of(table), taken)
            taken.add(location)
            empty = {"location": location, "head_version": -1, "changes": 0}
            new.append({"name": table.name, "is_declared": True, "start": table.start} | signature | empty)
            continue
        differs = signature_differences(row, table)
        if table.name in refused:  # its labels keep their meaning until it is rebuilt or reset
            differs, signature = [], {what: getattr(row, what) for what in SIGNATURE}
        elif differs:
            _delete_requests(write, table.name, who)
        start = table.start if table.start is not None else row.start
        if differs or not row.is_declared or start != row.start:
            changed.append({"of": table.name, "is_declared": True, "start": start} | signature)
    gone = [{"of": name} for name, row in known.items() if row.is_declared and name not in flow.tables]
    for statement, values in ((_ADD_TABLES, new), (_UPDATE_TABLE, changed), (_UNDECLARE, gone)):
        if values:
            write.execute(statement, values)


def _delete_requests(write: Write, table: str, who: str) -> None:
    """Withdraw the requests for a table without any batch, since its labels change their meaning."""
    if labels := list(write.execute(_REQUESTED_LABELS, {"of": table}).scalars()):
        write.log("request withdrawn", who=who, table=table, labels=labels)
    write.execute(_DELETE_BATCHES, {"of": table})
