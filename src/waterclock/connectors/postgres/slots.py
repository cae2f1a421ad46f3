"""Manages replication slots: creates them with a snapshot, reads their state, advances and drops them.

Each collect has its own slot. Taking a snapshot creates a slot with a new random name, and holds an advisory lock on
that name until the batch ends. So a slot whose name is neither locked nor recorded by a batch is left from a crash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from waterclock.batches.log_retention import LogSafety, RetainedLog
from waterclock.connectors.postgres.database import PostgresDatabase
from waterclock.connectors.postgres.dialect import quote_identifier
from waterclock.connectors.postgres.log_changes import position_of, position_text
from waterclock.connectors.postgres.table_facts import AGAIN, UnfitDecoder
from waterclock.database_clients.postgres_client import execute_replication
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_RETAINED = """
SELECT slot_name, coalesce(wal_status, 'lost'), pg_wal_lsn_diff(log.here, restart_lsn),
  pg_wal_lsn_diff(log.here, confirmed_flush_lsn), pg_size_bytes(current_setting('max_slot_wal_keep_size'))
FROM pg_replication_slots, (SELECT pg_current_wal_flush_lsn() AS here) AS log WHERE slot_name = ANY (%s)
  AND database = current_database()"""
_SAFETY = {
    "reserved": LogSafety.SAFE,
    "extended": LogSafety.SAFE,
    "unreserved": LogSafety.LOSING,
    "lost": LogSafety.LOST,
}
_STATE = """
SELECT confirmed_flush_lsn, coalesce(wal_status, 'lost'),
  pg_wal_lsn_diff(pg_current_wal_flush_lsn(), restart_lsn)
FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()"""
_NO_PLUGIN, _NO_PERMISSION, _IN_USE, _UNKNOWN_OPTION = "58P01", "42501", "55006", "22023"
_TRUSTED = "output_plugin_libraries"  # a setting of the minor releases since late 2026
_LOST = frozenset({"55000", "58P01", "42704"})  # invalidated, its files removed, dropped with its publication


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot and its output plugin.

    A slot of pgoutput has a publication of the same name, which contains only the table.
    """

    name: str
    plugin: str

    @property
    def publication(self) -> str:
        """The publication that pgoutput reads."""
        return self.name


@dataclass(frozen=True, slots=True)
class SlotState:
    """The state of a slot: the confirmed position, and the bytes of the log that the server retains for it."""

    confirmed: int
    status: str
    held: int


@dataclass(frozen=True, slots=True)
class SlotStart:
    """A new slot with its position, snapshot and time of creation.

    Within the block of `create_slot`, `snapshot` sees exactly what was committed before `position`.
    """

    slot: Slot
    position: int
    snapshot: str
    at: datetime


@contextmanager
def create_slot(database: PostgresDatabase, where: str, slot: Slot, table: str) -> Iterator[SlotStart]:
    """Create a slot; within the block, its snapshot can be read. The slot remains, even if the block fails.

    The server first waits for the end of all open transactions. `table` is the quoted name of the table.

    Raises E861 if the server is not configured for slots or denies permission. If another plugin may work, the error is
    an UnfitDecoder.
    """
    with ExitStack() as held:
        connection = held.enter_context(database.open_connection(where))
        _require_logical(connection, where)
        connection.execute("SELECT pg_advisory_lock(%s)", (lock_of(slot.name),))
        if slot.plugin == "pgoutput":
            _create_publication(connection, where, slot, table)
        try:
            replication = held.enter_context(database.connect_for_replication(where))
            position, snapshot = _create_replication_slot(replication, where, slot)
        except BaseException as error:
            connection.execute(f"DROP PUBLICATION IF EXISTS {quote_identifier(slot.publication)}")
            if (
                isinstance(error, WaterclockError)
                and (error.transient or error.code == "E821")
                and not _may_replicate(connection)
            ):
                _raise_creation_error(
                    _NO_PERMISSION, error.why or error.what, where, slot.plugin
                )  # the connection was refused before
            raise
        yield SlotStart(slot, position, snapshot, read_clock(connection))


def read_clock(connection: Connection) -> datetime:
    """Return the server's current time."""
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    if row is None:
        raise AssertionError("a server without a clock")
    at: datetime = row[0]
    return at


def lock_of(name: str) -> int:
    """Return the number of the advisory lock for a slot's name."""
    return int.from_bytes(hashlib.sha256(f"waterclock slot {name}".encode()).digest()[:8], "big", signed=True)


def _create_replication_slot(replication: Any, where: str, slot: Slot) -> tuple[int, str]:
    from psycopg.pq import DiagnosticField, ExecStatus

    statement = (
        f"CREATE_REPLICATION_SLOT {quote_identifier(slot.name)} LOGICAL {quote_identifier(slot.plugin)} EXPORT_SNAPSHOT"
    )
    result = execute_replication(replication, statement)
    if result.status != ExecStatus.TUPLES_OK:
        state, message, hint = (
            (result.error_field(field) or b"").decode()
            for field in (
                DiagnosticField.SQLSTATE,
                DiagnosticField.MESSAGE_PRIMARY,
                DiagnosticField.MESSAGE_HINT,
            )
        )
        if _is_untrusted_plugin(state, hint):
            raise _untrusted_plugin_error(slot, message, where, UnfitDecoder)
        _raise_creation_error(state, message or "the server closed the connection", where, slot.plugin)
    return position_of(result.get_value(0, 1).decode()), result.get_value(0, 2).decode()


def _raise_creation_error(state: str, message: str, where: str, plugin: str) -> NoReturn:
    if state == _NO_PLUGIN:
        fix = "install it on the server (Debian: postgresql-…-wal2json), or use OPTIONS (decoder 'pgoutput')"
        raise UnfitDecoder("E861", f"the server has no {plugin}", where=where, why=message, fix=fix)
    fixes = {
        _NO_PERMISSION: "run ALTER ROLE … REPLICATION for the connection's user",
        "53400": "drop unused slots (pg_replication_slots), or raise max_replication_slots on the server",
    }
    raise WaterclockError(
        "E861",
        "the server cannot create a replication slot",
        where=where,
        why=message,
        fix=fixes.get(state, "check the server's log; then run again"),
    )


def _may_replicate(connection: Connection) -> bool:
    row = connection.execute("SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    return row is None or bool(row[0])


def _require_logical(connection: Connection, where: str) -> None:
    row = connection.execute("SHOW wal_level").fetchone()
    if row is not None and row[0] != "logical":
        raise WaterclockError(
            "E861",
            "the server's log does not contain rows",
            where=where,
            why=f"its wal_level is {row[0]}",
            fix="run ALTER SYSTEM SET wal_level = 'logical', and restart the server",
        )


def _create_publication(connection: Connection, where: str, slot: Slot, table: str) -> None:
    import psycopg

    try:
        connection.execute(f"CREATE PUBLICATION {quote_identifier(slot.publication)} FOR TABLE {table}")
    except psycopg.errors.InsufficientPrivilege as error:
        raise UnfitDecoder(
            "E861",
            f"the server denies the right to publish {table}",
            where=where,
            why=f"pgoutput decodes only the tables of a publication: {error.diag.message_primary}",
            fix=f"make the connection's user the owner of {table}, with CREATE on the database;"
            " or install wal2json on the server, and use OPTIONS (decoder 'wal2json')",
        ) from error


def require_unchanged_table(connection: Connection, table: str, where: str) -> None:
    """Check that a snapshot sees the rows that the table had at its time, and lock the table for the transaction.

    It may not, as TRUNCATE and rewrites of a table also affect older snapshots. `table` is the table's quoted name.

    Raises E867 (transient) if the table was truncated or rewritten since.
    """
    connection.execute(f"SELECT FROM {table} LIMIT 0")
    row = connection.execute(
        "SELECT relfilenode = pg_relation_filenode(oid) FROM pg_class WHERE oid = to_regclass(%s)", (table,)
    ).fetchone()
    if row is None or not row[0]:
        raise WaterclockError(
            "E867",
            f"{table} was emptied or rewritten while its snapshot was taken",
            where=where,
            why="transactions that began earlier also see TRUNCATE and ALTER TABLE",
            fix="it is tried again, with a new snapshot",
            transient=True,
        )


def state_of(connection: Connection, slot: Slot) -> SlotState | None:
    """Return the state of a slot; None if it does not exist."""
    row = connection.execute(_STATE, (slot.name,)).fetchone()
    return None if row is None else SlotState(position_of(row[0]), str(row[1]), int(row[2] or 0))


def query_retained_logs(connection: Connection, names: Sequence[str]) -> Mapping[str, RetainedLog]:
    """Map each name to the state of its slot, with the size of the log that the server retains for it."""
    found = dict.fromkeys(names, RetainedLog(LogSafety.GONE))
    for name, status, held, behind, most in connection.execute(_RETAINED, (list(names),)):
        limit = None if most < 0 else int(most)
        found[name] = RetainedLog(
            _SAFETY.get(status, LogSafety.LOST), max(0, int(held or 0)), max(0, int(behind or 0)), limit
        )
    return found


def require_whole(state: SlotState | None, slot: Slot, since: int, where: str) -> None:
    """Check that a slot can still return all changes after a position.

    Raises E860 if the slot was dropped, lost its log, or was advanced beyond the position.
    """
    if state is None:
        what, why = "is gone", "it was dropped, or the server was restored or replaced"
    elif state.status == "lost":
        what, why = "has lost its log", "it held more than max_slot_wal_keep_size allows, and the server removed it"
    elif state.confirmed > since:
        what = "was advanced"
        why = f"it is at {position_text(state.confirmed)}, and the last batch read up to "
        why += f"{position_text(since)}: another reader used it"
    else:
        return
    raise WaterclockError(
        "E860",
        f"the replication slot {slot.name} {what}",
        where=where,
        why=f"{why}; changes since the last batch are lost, so the collect stops here",
        fix=AGAIN,
    )


def removed_log_error(slot: Slot, message: str, where: str) -> WaterclockError:
    """Build the error for a slot that was dropped or lost its log while it was read."""
    return WaterclockError(
        "E860",
        f"the log of the replication slot {slot.name} was removed while it was read",
        where=where,
        why=f"{message}; changes since the last batch can no longer be read, and none is skipped silently",
        fix=AGAIN,
    )


def _is_untrusted_plugin(state: str | None, hint: str | None) -> bool:
    """Return whether the server refused an output plugin because its setting does not list the plugin.

    The setting's name in the hint shows this, as messages may be translated.
    """
    return state == _NO_PERMISSION and _TRUSTED in (hint or "")


def _untrusted_plugin_error(
    slot: Slot, message: str, where: str, kind: type[WaterclockError], more: str = ""
) -> WaterclockError:
    listed = ", ".join(dict.fromkeys(("pgoutput", "test_decoding", slot.plugin)))
    return kind(
        "E861",
        f"the server does not trust {slot.plugin}",
        where=where,
        why=f"its setting {_TRUSTED} does not list it: {message}",
        fix=f"in the server's postgresql.conf set {_TRUSTED} = '{listed}' (and its other entries), then run SELECT"
        f" pg_reload_conf() there{more}",
    )


def untrusted_plugin_error(error: BaseException, slot: Slot, where: str) -> WaterclockError | None:
    """Build the error for a slot whose plugin the server no longer trusts; None if the error has another reason."""
    diagnostics = getattr(error, "diag", None)
    if diagnostics is None or not _is_untrusted_plugin(diagnostics.sqlstate, diagnostics.message_hint):
        return None
    more = (
        "; then run again: no change is lost, as the slot keeps the log until then. Or use OPTIONS (decoder"
        " 'pgoutput'), which takes a new snapshot of the table: of rows that changed several times only the last"
        " values are known"
    )
    return _untrusted_plugin_error(slot, str(diagnostics.message_primary), where, WaterclockError, more)


def mark_of_publication(connection: Connection, slot: Slot, table: int) -> str | None:
    """Return a text that changes if the slot's publication is altered; None if there is no publication."""
    row = connection.execute(
        "SELECT p.xmin::text || ' ' || r.xmin::text FROM pg_publication AS p"
        " JOIN pg_publication_rel AS r ON r.prpubid = p.oid WHERE p.pubname = %s AND r.prrelid = %s",
        (slot.publication, table),
    ).fetchone()
    return None if row is None else str(row[0])


def require_published(connection: Connection, slot: Slot, table: int, since: Mapping[str, Any], where: str) -> None:
    """Raise E860 if the slot's publication was changed, as only published changes are sent."""
    if slot.plugin != "pgoutput":
        return
    mark = mark_of_publication(connection, slot, table)
    if mark is None or since.get("publication", mark) != mark:
        raise WaterclockError(
            "E860",
            f"the publication {slot.publication} {'is gone' if mark is None else 'was altered'}",
            where=where,
            why="pgoutput sends only published changes, and the others since then can no longer be read",
            fix=AGAIN,
        )


def advance(connection: Connection, slot: Slot, position: int) -> None:
    """Advance a slot to a position, so that the server may remove the log before it. A slot never moves back."""
    state = state_of(connection, slot)
    if state is not None and state.status != "lost" and state.confirmed < position:
        connection.execute("SELECT pg_replication_slot_advance(%s, %s)", (slot.name, position_text(position)))


def drop(connection: Connection, name: str) -> bool:
    """Drop a slot and its publication, if they exist. Return False, and keep them, if a batch is using the slot."""
    row = connection.execute("SELECT pg_try_advisory_lock(%s)", (lock_of(name),)).fetchone()
    if row is None or not row[0]:
        return False
    try:
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            " WHERE slot_name = %s AND database = current_database()",
            (name,),
        )
        connection.execute(f"DROP PUBLICATION IF EXISTS {quote_identifier(name)}")
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", (lock_of(name),))
    return True


def has_lost_log(error: BaseException) -> bool:
    """Return whether an error shows that the slot lost its log while it was read."""
    return getattr(error, "sqlstate", None) in _LOST


def is_in_use(error: BaseException) -> bool:
    """Return whether an error shows that another connection is reading the slot."""
    return getattr(error, "sqlstate", None) == _IN_USE


def is_option_unknown(error: BaseException) -> bool:
    """Return whether an error shows that an output plugin is too old for one of its options."""
    return getattr(error, "sqlstate", None) == _UNKNOWN_OPTION
