"""Matches a source's columns with those that a table takes, under which names and as which types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.declarations import Columns
from waterclock.spark_sql import column_name
from waterclock.timelabel.label import TIMELABEL


@dataclass(frozen=True, slots=True)
class Found:
    """A column that a source holds. `type` is Spark SQL text, None where the source does not say."""

    name: str
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """A column of the table and where it comes from. `is_typed`: the declaration says the type."""

    source: str
    name: str
    type: str
    is_typed: bool


@dataclass(frozen=True, slots=True)
class Matched:
    """What a table takes of a source, named columns first, and what a closed list leaves out."""

    taken: tuple[Taken, ...]
    left_out: tuple[str, ...]


def match(columns: Columns, found: Sequence[Found], *, where: str) -> Matched:
    """Match a column list against the columns a source holds.

    A declared name finds its column exactly, else whatever its case. A name that a Delta table cannot bear has blanks
    and `,;{}()=` put as `_`. A column `timelabel` is never taken: the engine sets its own. Untyped is STRING.
    Raises  E805 for declared columns that the source does not have, all of them at once
            E808 for two columns of one name
    """
    clean = _clean([column for column in found if column.name.lower() != TIMELABEL], where)
    by_lower = {name.lower(): (name, column) for name, column in clean.items()}
    taken: list[Taken] = []
    missing: list[str] = []
    for column in columns.named:
        _, source = by_lower.pop(column.name.lower(), (None, None))
        if source is None:
            missing.append(column.name)
        else:
            declared = column.type
            taken.append(Taken(source.name, column.name, declared or source.type or "STRING", declared is not None))
    if missing:
        raise _lost(missing, clean, where)
    rest = [(name, column) for name, column in clean.items() if name.lower() in by_lower]
    if columns.is_open:
        taken.extend(Taken(column.name, name, column.type or "STRING", is_typed=False) for name, column in rest)
        return Matched(tuple(taken), ())
    return Matched(tuple(taken), tuple(column.name for _, column in rest))


def no_time_column(time_column: str, known: Sequence[str], *, where: str) -> WaterclockError:
    """Make the error for a source without the column that BY DATA TIME names."""
    return WaterclockError(
        "E805",
        f"{where} has no column {time_column}",
        where=where,
        why=f"BY DATA TIME {time_column} decides the window of each row; it has {', '.join(known)}",
        fix=did_you_mean(time_column, known, otherwise="name the column that holds the rows' own time"),
    )


def _clean(found: Iterable[Found], where: str) -> dict[str, Found]:
    clean: dict[str, Found] = {}
    lower: dict[str, str] = {}
    for place, column in enumerate(found, 1):
        name = column_name(column.name) or f"column_{place}"
        other = lower.setdefault(name.lower(), column.name)
        if name in clean or other != column.name:
            raise WaterclockError(
                "E808",
                f"two columns are called {name}" if other == column.name else f"{other} and {column.name} clash",
                where=where,
                why="a table's columns differ by more than case, blanks and ,;{}()=",
                fix="rename one of them at the source, or read it through a query",
            )
        clean[name] = column
    return clean


def _lost(missing: Sequence[str], clean: Iterable[str], where: str) -> WaterclockError:
    known = list(clean)
    plural = "s" if len(missing) > 1 else ""
    return WaterclockError(
        "E805",
        f"{where} has no column{plural} {', '.join(missing)}",
        where=where,
        why=f"it has {', '.join(known)}" if known else "it has no columns at all",
        fix=did_you_mean(missing[0], known, otherwise="bring the column back at the source, or take it off the list"),
    )
