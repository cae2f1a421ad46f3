"""Builds the errors for declarations that no rebuild can follow."""

from __future__ import annotations

from collections.abc import Iterable

from waterclock.errors import WaterclockError


def cannot_recut(table: str, changes: Iterable[tuple[str, str, str]], where: str) -> WaterclockError:
    """Build the error for rebuilding a table with other windows than its slices have."""
    told = "; ".join(f"{what} was {old or 'none'}, is now {new or 'none'}" for what, old, new in changes)
    return WaterclockError(
        "E420",
        f"{table} cannot be cut into other windows",
        where=where,
        why=f"{told}; a rebuild of one table leaves the slices of its stage as they were cut",
        fix="put the declaration back, or run `waterclock rebuild --all`, which makes every table anew",
    )


def cannot_sort(table: str, changes: Iterable[tuple[str, str, str]], where: str, *, why: str) -> WaterclockError:
    """Build the error for new windows of a collect where the window of its collected rows cannot be determined."""
    return WaterclockError(
        "E431",
        f"what {table} has collected cannot be cut into these windows",
        where=where,
        why=f"{_differences(changes)}; {why}",
        fix="put the declaration back, or give the table another name: it is then collected from START on",
    )


def cannot_follow(
    table: str, changes: Iterable[tuple[str, str, str]], where: str, *, why: str, is_publish: bool = False
) -> WaterclockError:
    """Build the error for a declaration that no rebuild can follow."""
    over = "give it another name and destination" if is_publish else f"start it over with `waterclock reset {table}`"
    return WaterclockError(
        "E432",
        f"no rebuild can make {table} so",
        where=where,
        why=f"{_differences(changes)}; {why}",
        fix=f"put the declaration back, or {over}",
    )


def not_whole(where: str, why: str) -> WaterclockError:
    """Build the error for a new set that is missing data of the old one."""
    return WaterclockError(
        "E433",
        "the new set is not whole: the old tables stand",
        where=where,
        why=why,
        fix="mend it, then run `waterclock rebuild --all` again: it begins anew",
    )


def _differences(changes: Iterable[tuple[str, str, str]]) -> str:
    return "; ".join(f"{what} was {old or 'none'}, is now {new or 'none'}" for what, old, new in changes)
