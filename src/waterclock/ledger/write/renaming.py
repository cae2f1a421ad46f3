"""Renames tables with all of their records in the ledger, in the transaction that applies the flow with WAS.

The data is not moved: a table keeps its folder, and files in the storage keep the names with which they were written.
Code of the table and of its readers that differs only by the name gets its current name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from waterclock.batches.audit_records import RENAMED
from waterclock.batches.former_names import FormerNames, folder_of, replace_table_names
from waterclock.batches.ledger_snapshot import OpenClaim
from waterclock.batches.records import INPUTS_FOUND, MISSING
from waterclock.errors import WaterclockError, raise_all
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Kind
from waterclock.ledger import rename_errors as refusals
from waterclock.ledger.store.database import RENAMED_AT, LedgerDatabase, Write
from waterclock.ledger.store.renamed_tables import Name
from waterclock.ledger.store.schema import (
    IS_OPEN,
    alerts,
    batches,
    claim_labels,
    claims,
    code_lineage,
    codes,
    former_names,
    inputs,
    metadata,
    revisions,
    tables,
)
from waterclock.ledger.write.pauses import rename_hold
from waterclock.ledger.write.rebuild_all_lock import require_no_rebuild

Columns = tuple[sa.Column[str], ...]
CODES: Columns = tuple(table.c.code for table in (batches, claims, code_lineage, codes))
"""The columns with fingerprints of tables' code."""
NAMES: Columns = tuple(
    column
    for table in metadata.sorted_tables
    for column in table.columns
    if isinstance(column.type, Name) and column not in CODES
)
"""The columns with table names: all columns of that type, including those of tables added later."""

_TABLES = sa.select(tables.c.name, tables.c.location, tables.c.kind)
_FORMER = sa.select(former_names.c.former, former_names.c.current, former_names.c.is_code)
# labels that are only requested do not count: they have no claim, and no user has decided their state
_WITH_BATCHES = sa.select(tables.c.name).where(
    tables.c.name.in_(sa.bindparam("of", expanding=True)),
    sa.or_(
        sa.exists().where(batches.c.table_name == tables.c.name, batches.c.status.is_not(None)),
        sa.exists().where(claim_labels.c.table_name == tables.c.name),
    ),
)
_RUNNING_CLAIMS = (
    sa.select(claims.c.table_name, claims.c.number, claims.c.runner, claims.c.lease_until)
    .where(IS_OPEN, claims.c.lease_until >= sa.bindparam("now_"))
    .order_by(claims.c.number)
)
_SET_FOLDER = sa.update(tables).where(tables.c.name == sa.bindparam("of")).values(location=sa.bindparam("to"))
_FORGET = sa.delete(former_names).where(former_names.c.former == sa.bindparam("was"))
_FOLLOW = (
    sa.update(former_names)
    .where(former_names.c.current == sa.bindparam("was"))
    .values(current=sa.bindparam("now_"), at=sa.bindparam("at_"))
)
_ADD = sa.insert(former_names)
_READS = sa.select(inputs.c.read).where(inputs.c.table_name == sa.bindparam("of")).distinct()
_SET_READ = (
    sa.update(inputs)
    .where(inputs.c.table_name == sa.bindparam("of"), inputs.c.read == sa.bindparam("was"))
    .values(read=sa.bindparam("now_"))
)
_MISSING = sa.select(batches.c.table_name, batches.c.label, batches.c.missing).where(batches.c.missing.is_not(None))
_SET_MISSING = (
    sa.update(batches)
    .where(batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("at"))
    .values(missing=sa.bindparam("now_"))
)
_PARTIAL_REVISIONS = sa.select(revisions.c.table_name, revisions.c.label, revisions.c.claim, revisions.c.source).where(
    sa.cast(revisions.c.source, sa.Text).like(f'%"{MISSING}":%')
)
_WITH_INPUT_COUNTS = sa.select(
    revisions.c.table_name, revisions.c.label, revisions.c.claim, revisions.c.measures
).where(sa.cast(revisions.c.measures, sa.Text).like(f'%"{INPUTS_FOUND}":%'))
_OF_REVISION = sa.update(revisions).where(
    revisions.c.table_name == sa.bindparam("of"),
    revisions.c.label == sa.bindparam("at"),
    revisions.c.claim == sa.bindparam("by"),
)
_SET_MEASURES = _OF_REVISION.values(measures=sa.bindparam("now_"))
_SET_SOURCE = _OF_REVISION.values(source=sa.bindparam("now_"))
_CODES_OF = sa.select(codes.c.code, codes.c.labels).where(codes.c.table_name == sa.bindparam("of"))
# a first batch that was killed has its code only in its claim
_STORED_CODES = sa.union(
    sa.select(codes.c.table_name, codes.c.code), sa.select(claims.c.table_name, claims.c.code).where(IS_OPEN)
)
_LINEAGES_OF = sa.select(code_lineage.c.code).where(code_lineage.c.table_name == sa.bindparam("of"))


def apply_pending_renames(database: LedgerDatabase, flow: Flow) -> None:
    """Translate names of tables and code in all later reads and writes, as the next run will rename them.

    Cost: no query for a flow without WAS, three if all renames are done, otherwise five; none of them scans batches.
    """
    database.use_names({})
    if not any(table.was for table in flow.tables.values()):
        return
    with database.read() as connection:
        since = connection.execute(RENAMED_AT).scalar()
        known = {row.name for row in connection.execute(_TABLES)}
        found = _select_former_names(connection)
        renames = _find_renames(flow, known, found.tables)
        busy = _find_tables_with_batches(connection, renames)
        by_name = {now: was for now, was in renames.items() if now not in busy}
        if not by_name:
            return
        stored_codes = _group_codes_by_table(connection.execute(_STORED_CODES).all())
    recoded = {was: now for _, was, now in _find_renamed_codes(flow, found.codes, stored_codes, by_name)}
    database.use_names({was: now for now, was in by_name.items()} | recoded, since)


def pending_renames(
    connection: sa.Connection, flow: Flow, known: set[str]
) -> tuple[dict[str, str], list[WaterclockError]]:
    """Map new to former names of the tables that the next run renames. Also return the errors that this would raise.

    `known` has the names of all tables in the ledger. Cost: one query, and one more if the flow has WAS or a table was
    renamed before.
    """
    found = _select_former_names(connection)
    if not found.tables and not any(table.was for table in flow.tables.values()):
        return {}, []
    renames = _find_renames(flow, known, found.tables)
    return renames, list(_find_rename_errors(connection, flow, known, renames, found.tables))


def list_pending_renames(database: LedgerDatabase) -> dict[str, str]:
    """Map the new name of each table that the next run renames to its stored name."""
    return {now: was for was, now in database.current_names.items() if "." in now}


def read_former_names(database: LedgerDatabase) -> FormerNames:
    """Return all former names with the current ones."""
    with database.read() as connection:
        found = _select_former_names(connection)
        rows = connection.execute(_TABLES).all()
    folders = {
        row.name: row.location for row in rows if row.kind != Kind.PUBLISH and row.location != folder_of(row.name)
    }
    return FormerNames(found.tables, found.codes, folders)


def rename_tables(write: Write, flow: Flow, who: str) -> dict[str, str]:
    """Rename all tables whose WAS was not applied yet, and the code of these tables and of their readers.

    The result maps each new name to the former one. Cost: one statement for each column with table names; minutes for a
    ledger of millions of batches.

    Raises E318 if there is nothing to rename, or both names have data, or two tables declare one former name, or the
    flow uses a former name again; E407 (transient) while a batch of one of the tables is running, E644 (transient)
    while all tables are rebuilt.
    """
    found = _select_former_names(write.connection)
    if not found.tables and not any(table.was for table in flow.tables.values()):
        return {}
    known = set(write.execute(_TABLES).scalars())
    renames = _find_renames(flow, known, found.tables)
    raise_all(list(_find_rename_errors(write.connection, flow, known, renames, found.tables)))
    recoded = list(
        _find_renamed_codes(flow, found.codes, _group_codes_by_table(write.execute(_STORED_CODES).all()), renames)
    )
    if renames:
        _require_no_running_batches(write, [*renames.values(), *renames, *(name for name, _, _ in recoded)])
        require_no_rebuild(write, next(iter(renames)))
    for now, was in renames.items():
        _rename(write, was, now, is_there=now in known)
        _record_former_name(write, was, now, is_code=False)
        write.log(RENAMED, who=who, table=now, data={"was": was})
    if renames:
        _replace_stored_names(write, {was: now for now, was in renames.items()})
    for name, was, now in recoded:
        _recode(write, name, was, now)
        _record_former_name(write, was, now, is_code=True)
    return renames


def record_former_name_and_folder(database: LedgerDatabase, table: str, was: str, location: str) -> None:
    """During a ledger rebuild, record the former name `was` of a table, and the folder that the table keeps."""
    with database.write() as write:
        write.execute(_SET_FOLDER, {"of": table, "to": location})
        _record_former_name(write, was, table, is_code=False)


def free_location(location: str, taken: Iterable[str]) -> str:
    """Return `location`, the folder for a new table, with a number appended if a renamed table still uses it."""
    taken, found, number = set(taken), location, 2
    while found in taken:
        found, number = f"{location}.{number}", number + 1
    return found


def _find_renames(flow: Flow, known: Iterable[str], former: Mapping[str, str]) -> dict[str, str]:
    """Map the new name of each table that is to be renamed to its name in the ledger."""
    known, found = set(known), dict[str, str]()
    for name, table in flow.tables.items():
        was = table.was
        if was is not None and was not in known:  # it may have been renamed again since
            was = former.get(was)
        if was is not None and was != name and was in known and was not in flow.tables:
            found[name] = was
    return found


def _find_renamed_codes(
    flow: Flow, former: Mapping[str, str], stored_codes: Mapping[str, set[str]], renames: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield each table whose code gets a new name, with the former and the new name of the code.

    If a declared rename was recorded long ago, the code may have been renamed since, and the recorded name is the
    former one. The declared name is the former one if the table has batches of it. `stored_codes` maps stored table
    names to codes.
    """
    for name, table in flow.tables.items():
        was = table.code_before
        if was not in stored_codes.get(renames.get(name, name), ()):
            was = former.get(was, was)
        if was and was != table.fingerprint:
            yield name, was, table.fingerprint


def _group_codes_by_table(rows: Iterable[Any]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row.table_name, set()).add(row.code)
    return found


def _find_tables_with_batches(connection: sa.Connection, names: Iterable[str]) -> set[str]:
    """Return those of the tables that have batches or ever had a claim. Cost: an index lookup for each."""
    asked = sorted(names)
    return set(connection.execute(_WITH_BATCHES, {"of": asked}).scalars()) if asked else set()


def _find_rename_errors(
    connection: sa.Connection, flow: Flow, known: set[str], renames: dict[str, str], former: Mapping[str, str]
) -> Iterator[WaterclockError]:
    busy = _find_tables_with_batches(connection, {*renames, *renames.values(), *(known - flow.tables.keys())})
    gone = sorted(busy - flow.tables.keys() - {*renames.values()})
    firsts: dict[str, str] = {}
    for now, once in renames.items():
        if firsts.setdefault(once, now) != now:
            yield refusals.same_former_name_error(now, firsts[once], once, str(flow.tables[now].place))
    for name, table in flow.tables.items():
        was, where = table.was, str(table.place)
        if name in renames and name in busy:
            if renames[name] in busy:
                yield refusals.both_have_data_error(name, renames[name], where)
            else:
                del renames[name]  # nothing to take over
        elif was is not None and name not in renames and was not in known and name not in former.values() and gone:
            yield refusals.missing_history_error(name, was, gone, where)
        since = former.get(name)
        is_new = name not in known and name not in renames
        if is_new and since is not None and since not in flow.tables and since not in renames.values():
            yield refusals.renamed_table_error(name, since, where)


def _require_no_running_batches(write: Write, names: Iterable[str]) -> None:
    wanted = set(names)
    row = next((row for row in write.execute(_RUNNING_CLAIMS, {"now_": write.at}) if row.table_name in wanted), None)
    if row is not None:
        holder = OpenClaim(row.number, (), row.runner, row.lease_until)
        raise refusals.busy_rename_error(row.table_name, holder)


def _rename(write: Write, was: str, now: str, *, is_there: bool) -> None:
    if is_there:  # declared, but without any batch
        for column in NAMES:
            write.execute(sa.delete(column.table).where(column == now))
    for column in NAMES:
        write.execute(sa.update(column.table).where(column == was).values({column: now}))
    rename_hold(write, now)
    for read in write.execute(_READS, {"of": now}).scalars().all():
        text = replace_table_names(read, {was: now})
        if text != read:
            write.execute(_SET_READ, {"of": now, "was": read, "now_": text})


def _replace_stored_names(write: Write, names: Mapping[str, str]) -> None:
    """Replace names in values stored as JSON: missing inputs, rule results of inputs, lineage of code, alerts."""
    values = [
        {"of": row.table_name, "at": row.label, "now_": missing}
        for row in write.execute(_MISSING).all()
        if (missing := replace_table_names(row.missing, names)) != row.missing
    ]
    write.execute_each(_SET_MISSING, values)
    values = []
    for row in write.execute(_PARTIAL_REVISIONS).all():
        missing_inputs = [{**it, "table": names.get(it["table"], it["table"])} for it in row.source[MISSING]]
        if missing_inputs != row.source[MISSING]:
            source = {**row.source, MISSING: missing_inputs}
            values.append({"of": row.table_name, "at": row.label, "by": row.claim, "now_": source})
    write.execute_each(_SET_SOURCE, values)
    values = []
    for row in write.execute(_WITH_INPUT_COUNTS).all():
        counts = row.measures[INPUTS_FOUND]
        if not names.keys().isdisjoint(counts):
            measures = {**row.measures, INPUTS_FOUND: {names.get(of, of): each for of, each in counts.items()}}
            values.append({"of": row.table_name, "at": row.label, "by": row.claim, "now_": measures})
    write.execute_each(_SET_MEASURES, values)
    for column, where in ((alerts.c.trouble, ~alerts.c.is_finished), (code_lineage.c.lineage, sa.true())):
        keys = list(column.table.primary_key)
        for row in write.execute(sa.select(*keys, column).where(where)).all():
            if (replaced := _replace_names(row[-1], names)) != row[-1]:
                same = sa.and_(*(key == value for key, value in zip(keys, row, strict=False)))
                write.execute(sa.update(column.table).where(same).values({column: replaced}))


def _replace_names(value: object, names: Mapping[str, str]) -> object:
    if isinstance(value, str):
        return replace_table_names(value, names)
    if isinstance(value, list):
        return [_replace_names(each, names) for each in value]
    if isinstance(value, dict):
        return {replace_table_names(key, names): _replace_names(each, names) for key, each in value.items()}
    return value


def _recode(write: Write, table: str, was: str, now: str) -> None:
    """Rename a table's code. Merge it with existing records of the new name."""
    labels = {row.code: row.labels for row in write.execute(_CODES_OF, {"of": table})}
    if was in labels and now in labels:
        write.execute(sa.delete(codes).where(codes.c.table_name == table, codes.c.code == was))
        same = sa.update(codes).where(codes.c.table_name == table, codes.c.code == now)
        write.execute(same.values(labels=labels[was] + labels[now]))
    if {was, now} <= set(write.execute(_LINEAGES_OF, {"of": table}).scalars()):
        write.execute(sa.delete(code_lineage).where(code_lineage.c.table_name == table, code_lineage.c.code == was))
    for column in CODES:
        of = column.table.c.table_name == table
        write.execute(sa.update(column.table).where(of, column == was).values({column: now}))


def _record_former_name(write: Write, was: str, now: str, *, is_code: bool) -> None:
    at: datetime = write.at
    write.execute(_FOLLOW, {"was": was, "now_": now, "at_": at})
    for name in (was, now):  # `now` is a current name now, and `was` gets a new entry
        write.execute(_FORGET, {"was": name})
    write.execute(_ADD, {"former": was, "current": now, "is_code": is_code, "at": at})


def _select_former_names(connection: sa.Connection) -> FormerNames:
    rows = connection.execute(_FORMER).all()
    return FormerNames(
        {row.former: row.current for row in rows if not row.is_code},
        {row.former: row.current for row in rows if row.is_code},
    )
