"""Builds the errors for changed declarations that a rebuild cannot apply."""

from __future__ import annotations

from collections.abc import Iterable

from waterclock.errors import WaterclockError


def changed_windows_error(table: str, changes: Iterable[tuple[str, str, str]], where: str) -> WaterclockError:
    """Build E420: the declared windows differ from those of the stored slices."""
    differences = "; ".join(f"{what} was {old or 'none'}, is now {new or 'none'}" for what, old, new in changes)
    return WaterclockError(
        "E420",
        f"{table} cannot be cut into other windows",
        where=where,
        why=f"{differences}; a rebuild of one table does not cut its slices again",
        fix="restore the declaration, or run `waterclock rebuild --all`, which makes every table again",
    )


def uncuttable_rows_error(
    table: str, changes: Iterable[tuple[str, str, str]], where: str, *, why: str
) -> WaterclockError:
    """Build the error for a changed cadence of a collect whose stored rows cannot be assigned to the new windows."""
    return WaterclockError(
        "E431",
        f"the collected rows of {table} cannot be cut into these windows",
        where=where,
        why=f"{_differences(changes)}; {why}",
        fix="restore the declaration, or give the table another name: it is then collected from START on",
    )


def unsupported_change_error(
    table: str, changes: Iterable[tuple[str, str, str]], where: str, *, why: str, is_publish: bool = False
) -> WaterclockError:
    """Build the error for a changed declaration that a rebuild cannot apply."""
    over = (
        "give it another name and destination"
        if is_publish
        else (f"run `waterclock reset {table}`, which starts it over")
    )
    return WaterclockError(
        "E432",
        f"a rebuild cannot change {table} in this way",
        where=where,
        why=f"{_differences(changes)}; {why}",
        fix=f"restore the declaration, or {over}",
    )


def incomplete_tables_error(where: str, why: str) -> WaterclockError:
    """Build the error for a `rebuild --all` whose new tables are missing data of the current ones."""
    return WaterclockError(
        "E433",
        "the new tables are incomplete, the old ones stay in use",
        where=where,
        why=why,
        fix="fix it, then run `waterclock rebuild --all` again: it starts over",
    )


def windows_lost(table: str, where: str, why: str) -> WaterclockError:
    """Build the error for a `rebuild --all` after a changed declaration, if not all of the table's rows can be made."""
    return WaterclockError(
        "E433",
        "the new tables are incomplete, the old ones stay in use",
        where=where,
        why=f"{why}, and the declaration of {table} has changed, so none of its rows can stay",
        fix=f"restore the declaration; or run `waterclock rebuild {table}` where only type, mode or keys changed, else "
        f"`waterclock reset {table}`, which starts it over without them",
    )


def _differences(changes: Iterable[tuple[str, str, str]]) -> str:
    return "; ".join(f"{what} was {old or 'none'}, is now {new or 'none'}" for what, old, new in changes)
