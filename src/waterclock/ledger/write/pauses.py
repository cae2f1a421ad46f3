"""Records pauses of a table or of all tables. A pause prevents runners from claiming batches until a resume."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

import sqlalchemy as sa

from waterclock.batches.audit_records import PAUSED, RESUMED
from waterclock.batches.ledger_snapshot import Pause
from waterclock.ledger import ledger_errors
from waterclock.ledger.store.database import LedgerDatabase, Write, pause_of
from waterclock.ledger.store.schema import AnyRow, ledger, tables

_TABLES = sa.select(tables.c.name, tables.c.paused_at, tables.c.paused_by, tables.c.paused_why)
_DECLARED = _TABLES.where(tables.c.is_declared, tables.c.paused_why.is_not(None))
_PAUSE_COLUMNS: dict[str, sa.BindParameter[object]] = {
    name: sa.bindparam(f"{name}_") for name in ("paused_at", "paused_by", "paused_why")
}
_PAUSE = sa.update(tables).where(tables.c.name == sa.bindparam("of")).values(_PAUSE_COLUMNS)
_PAUSE_ALL = sa.update(ledger).values(_PAUSE_COLUMNS)
RESET, REBUILD = "reset", "rebuild"
_STATE_WORDS = {RESET: "being reset", REBUILD: "being rebuilt"}
_HOLD = re.compile(
    r"(?:; )?(being reset|being rebuilt) \(claim (\d+)\): (`waterclock (?:reset|rebuild) \S+` finishes it)$"
)
_NOT_PAUSED = {"paused_at_": None, "paused_by_": None, "paused_why_": None}


def pause_tables(database: LedgerDatabase, names: Collection[str], *, who: str, why: str) -> tuple[str, ...]:
    """Prevent all runners from claiming batches of these tables. Return those that were not paused before.

    A table that was already paused keeps its first reason. Batches that are being made run to their end. Raises E430 if
    all of them are paused already, E412 for an unknown table.
    """
    with database.write() as write:
        known = _check_known_tables(write, names)
        new = tuple(name for name in names if known[name].paused_at is None)
        if not new:
            raise _paused_already({name: pause_of(known[name]) for name in names})
        for name in new:
            write.execute(_PAUSE, {"of": name} | _build_pause_values(write, who, why))
            write.log(PAUSED, who=who, table=name, data={"why": why})
        return new


def pause_all(database: LedgerDatabase, *, who: str, why: str) -> None:
    """Prevent all runners from claiming any batch, also of tables declared later. Raises E430 if all is paused."""
    with database.write() as write:
        if write.paused is not None:
            raise ledger_errors.no_pause(
                "all is paused already", why=write.paused.words("UTC"), fix="`waterclock resume` ends the pause"
            )
        write.execute(_PAUSE_ALL, _build_pause_values(write, who, why))
        write.log(PAUSED, who=who, data={"why": why})


def resume_tables(database: LedgerDatabase, names: Collection[str], *, who: str, why: str = "") -> tuple[str, ...]:
    """End the pauses of these tables. Return those that were paused. A pause of all tables stays.

    Raises E430 if none is paused, or one is being reset or rebuilt; E412 for an unknown table.
    """
    with database.write() as write:
        known = _check_known_tables(write, names)
        for name in names:
            if hold := _HOLD.search(known[name].paused_why or ""):
                raise ledger_errors.no_pause(f"{name} is {hold[1]}", why=known[name].paused_why, fix=hold[3])
        old = tuple(name for name in names if known[name].paused_at is not None)
        if not old:
            raise _not_paused_error(names, write.paused)
        for name in old:
            _end_pause(write, name, who=who, why=why)
        return old


def resume_all(database: LedgerDatabase, *, who: str, why: str = "") -> None:
    """End the pause of all tables; tables that are paused by name stay paused. Raises E430 if there is none."""
    with database.write() as write:
        if write.paused is None:
            names = [row.name for row in write.execute(_TABLES) if row.paused_at is not None]
            raise ledger_errors.no_pause(
                "the project is not paused",
                why=f"paused by name: {_join_names(names)}" if names else "no table is paused",
                fix=f"`waterclock resume {names[0]}` resumes a table" if names else None,
            )
        write.execute(_PAUSE_ALL, _NOT_PAUSED)
        write.log(RESUMED, who=who, data={"why": why} if why else None)


def split_hold_reason(why: str | None) -> tuple[str, int | None]:
    """Split a pause's reason into the user's part and the claim of an unfinished reset or rebuild, or None."""
    found = _HOLD.search(why or "")
    return (why or "", None) if found is None else ((why or "")[: found.start()], int(found[2]))


def find_holds(database: LedgerDatabase) -> dict[str, str]:
    """Map each declared table with an unfinished reset or rebuild to "being reset" or "being rebuilt"."""
    with database.read() as connection:
        return {row.name: found[1] for row, found in _search_holds(connection.execute(_DECLARED))}


def require_no_holds(write: Write, name: str | None = None) -> None:
    """Raise E407 if a reset or rebuild of a declared table (of `name`, if given) is unfinished.

    The error names the table, and the command that finishes the reset or rebuild.
    """
    for row, found in _search_holds(write.execute(_DECLARED)):
        if name in {None, row.name}:
            raise ledger_errors.unfinished_table_error(row.name, found[1], row.paused_why, found[3])


def _search_holds(rows: Iterable[AnyRow]) -> Iterator[tuple[AnyRow, re.Match[str]]]:
    return ((row, found) for row in rows if (found := _HOLD.search(row.paused_why)))


def hold(write: Write, row: AnyRow, claim: int, command: str, *, who: str) -> int | None:
    """Pause a table until its reset or rebuild ends. Return the claim of an unfinished one that this one replaces."""
    reason, before = split_hold_reason(row.paused_why)
    mark = f"{_STATE_WORDS[command]} (claim {claim}): `waterclock {command} {row.name}` finishes it"
    values = (
        {"paused_at_": row.paused_at, "paused_by_": row.paused_by} if reason else _build_pause_values(write, who, "")
    )
    write.execute(_PAUSE, {"of": row.name} | values | {"paused_why_": f"{reason}; {mark}" if reason else mark})
    if not reason:
        write.log(PAUSED, who=who, table=row.name, data={"why": mark})
    return before


def rename_hold(write: Write, name: str) -> None:
    """Use a table's new name in the stored command that finishes its reset or rebuild."""
    why = write.execute(_TABLES.where(tables.c.name == name)).one().paused_why or ""
    if (found := _HOLD.search(why)) is not None:
        command = RESET if found[1] == _STATE_WORDS[RESET] else REBUILD
        text = f"{why[: found.start(3)]}`waterclock {command} {name}` finishes it"
        write.execute(sa.update(tables).where(tables.c.name == name).values(paused_why=text))


def end_hold(write: Write, row: AnyRow, claim: int, *, who: str) -> None:
    """End the pause of a reset or rebuild; a user's own pause stays. Raises E411 if another command took over."""
    reason, held_by = split_hold_reason(row.paused_why)
    if held_by != claim:
        raise ledger_errors.closed_claim_error(claim, "another reset or rebuild of the table took it over")
    if reason:
        values = {"paused_at_": row.paused_at, "paused_by_": row.paused_by, "paused_why_": reason}
        write.execute(_PAUSE, {"of": row.name} | values)
    else:
        _end_pause(write, row.name, who=who)


def _end_pause(write: Write, name: str, *, who: str, why: str = "") -> None:
    write.execute(_PAUSE, {"of": name} | _NOT_PAUSED)
    write.log(RESUMED, who=who, table=name, data={"why": why} if why else None)


def _build_pause_values(write: Write, who: str, why: str) -> dict[str, object]:
    return {"paused_at_": write.at, "paused_by_": who, "paused_why_": why}


def _check_known_tables(write: Write, names: Collection[str]) -> Mapping[str, AnyRow]:
    known = {row.name: row for row in write.execute(_TABLES)}
    for name in names:
        if name not in known:
            raise ledger_errors.unknown_table(name, known)
    return known


def _paused_already(pauses: Mapping[str, Pause | None]) -> Exception:
    name, pause = next(iter(pauses.items()))
    more = f" and {len(pauses) - 1} more are" if len(pauses) > 1 else " is"
    return ledger_errors.no_pause(
        f"{name}{more} paused already",
        why=pause.words("UTC") if pause else "",
        fix=f"`waterclock resume {name}` ends the pause",
    )


def _not_paused_error(names: Collection[str], of_all: Pause | None) -> Exception:
    which = _join_names(names)
    if of_all is not None:
        return ledger_errors.no_pause(
            f"{which} has no pause of its own: all is paused",
            why=of_all.words("UTC"),
            fix="`waterclock resume` resumes all tables except those paused by name",
        )
    return ledger_errors.no_pause(
        f"{which} {'is' if len(names) == 1 else 'are'} not paused",
        why="its batches may be claimed" if len(names) == 1 else "their batches may be claimed",
        fix="`waterclock plan` shows which batches wait and why",
    )


def _join_names(names: Collection[str]) -> str:
    some = list(names)[:3]
    return ", ".join(some) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
