"""Finds the maximum time distance between rows that a query joins, if its conditions determine it exactly.

Two forms of queries are recognized; both find each match once, when its later row has arrived. The first joins rows of
several PASTs, the newest of which has the batch's label. The second selects the rows of the batch's window that have no
match in a PAST.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.column_scope import start_of
from waterclock.dpl.query.names_in_query import NamedTable, is_mark
from waterclock.errors import WaterclockError
from waterclock.flow.enums import ReadKind
from waterclock.timelabel.duration import parse_duration
from waterclock.timelabel.label import TIMELABEL

_At = tuple[str, str]  # alias and column, in lower case
_UP_TO = (exp.LT, exp.LTE, exp.EQ)
_FROM = (exp.GT, exp.GTE, exp.EQ)


@dataclass(frozen=True, slots=True)
class TimeBound:
    """The longest time, `most`, between a row of `read` and a later row of `other` that the query joins with it.

    It is measured from `column` of `read` to `other_column` of `other`.
    """

    read: NamedTable
    column: str
    other: NamedTable
    other_column: str
    most: timedelta


@dataclass(slots=True)
class _LinearSum:
    """A linear sum: time columns, each times an integer, plus a constant duration."""

    times: dict[_At, int] = field(default_factory=dict)
    length: timedelta = timedelta()


def time_bounds(tree: Any, tables: Mapping[int, NamedTable]) -> Iterator[TimeBound]:
    """Yield the time bounds of a query's joins; `tables` are its reads by their start offsets."""
    for select in tree.find_all(exp.Select):
        sources = dict(_sources(select, tables))
        conditions = _conditions(select)
        newest = _find_newest_aliases(conditions)
        past = {alias for alias in newest if alias in sources and sources[alias].kind is ReadKind.PAST}
        if len(past) > 1 and past == newest:
            yield from _find_bounds_between(sources, conditions, past, past)
        yield from _find_bounds_of_anti_joins(select, sources, tables)


def _find_bounds_of_anti_joins(
    select: exp.Select, outer: Mapping[str, NamedTable], tables: Mapping[int, NamedTable]
) -> Iterator[TimeBound]:
    """Yield the time bounds in NOT EXISTS and anti joins, which select rows without a match in a PAST."""
    own = {alias for alias, table in outer.items() if table.kind is ReadKind.PLAIN}
    for condition in _conditions(select):
        inner = (
            condition.this.this if isinstance(condition, exp.Not) and isinstance(condition.this, exp.Exists) else None
        )
        if isinstance(inner, exp.Select):
            sources = dict(_sources(inner, tables))
            past = {alias for alias, table in sources.items() if table.kind is ReadKind.PAST} - outer.keys()
            if not any(map(_may_bound, _conditions(inner))):
                yield from _find_bounds_between(
                    {**outer, **sources}, [*_conditions(select), *_conditions(inner)], past, own
                )
    for join in select.args.get("joins") or ():
        if (join.kind or "").upper() == "ANTI" and isinstance(join.this, exp.Table):
            sources = dict(_list_named_tables(join.this, tables))
            past = {alias for alias, table in sources.items() if table.kind is ReadKind.PAST}
            matching = _split_conjunction(join.args.get("on"))
            if not any(map(_may_bound, matching)):
                yield from _find_bounds_between(
                    {**outer, **sources}, [*_conditions(select), *matching], past, own - past
                )


def _may_bound(condition: Any) -> bool:
    """Return whether a condition may restrict times other than by a maximum distance.

    This is possible for a condition on labels, unless it only compares the labels of two rows, and for a condition on
    values computed from both rows, such as their hours.
    """
    columns = list(condition.find_all(exp.Column))
    rows = {column.table.lower() for column in columns}
    if any(column.name.lower() == TIMELABEL for column in columns):
        return len(rows) < 2 or not isinstance(condition, exp.LT | exp.LTE | exp.GT | exp.GTE)
    return len(rows) > 1 and not any(_nonpositive_sums(condition))


def _find_bounds_between(
    sources: Mapping[str, NamedTable], conditions: Sequence[Any], reads: set[str], others: set[str]
) -> Iterator[TimeBound]:
    """Yield the time bounds from rows of `reads` to rows of `others`; none if other conditions restrict the times."""
    for (early, late), most in _longest_differences(conditions).items():
        if early[0] in reads and late[0] in others and early[0] != late[0]:
            is_more_said = any(
                _has_column(condition, early) != _has_column(condition, late) and not _only_drops_late_rows(condition)
                for condition in conditions
            )
            if not is_more_said:
                yield TimeBound(sources[early[0]], early[1], sources[late[0]], late[1], most)


def _longest_differences(conditions: Sequence[Any]) -> dict[tuple[_At, _At], timedelta]:
    """Map each pair of time columns to the longest time between them that conditions on their difference allow."""
    found: dict[tuple[_At, _At], timedelta] = {}
    for difference in (each for condition in conditions for each in _nonpositive_sums(condition)):
        ones = {count: time for time, count in difference.times.items()}
        if len(difference.times) == 2 and ones.keys() == {1, -1}:
            pair, most = (ones[-1], ones[1]), -difference.length
            found[pair] = min(most, found.get(pair, most))
    return found


def _nonpositive_sums(condition: Any) -> Iterator[_LinearSum]:
    """Yield a sum for each side of a comparison; the comparison requires that the sum is zero or less."""
    if isinstance(condition, exp.Between):
        sides = [(condition.args["low"], condition.this), (condition.this, condition.args["high"])]
    else:
        sides = [(condition.this, condition.expression)] if isinstance(condition, _UP_TO) else []
        sides += [(condition.expression, condition.this)] if isinstance(condition, _FROM) else []
    for low, high in sides:
        sums = _to_linear_sum(low), _to_linear_sum(high)
        if sums[0] is not None and sums[1] is not None:
            yield _subtract(sums[0], sums[1])


def _to_linear_sum(node: Any) -> _LinearSum | None:
    """Return an expression of time columns and intervals as a sum; None for any other expression."""
    if isinstance(node, exp.Paren):
        return _to_linear_sum(node.this)
    if isinstance(node, exp.Column):
        return _LinearSum({(node.table.lower(), node.name.lower()): 1}) if node.table else None
    if isinstance(node, exp.Interval):
        length = _interval_length(node)
        return None if length is None else _LinearSum(length=length)
    if not isinstance(node, exp.Add | exp.Sub):
        return None
    left, right = _to_linear_sum(node.this), _to_linear_sum(node.expression)
    if left is None or right is None:
        return None
    return _subtract(left, right if isinstance(node, exp.Sub) else _subtract(_LinearSum(), right))


def _subtract(left: _LinearSum, right: _LinearSum) -> _LinearSum:
    counts = {time: left.times.get(time, 0) - right.times.get(time, 0) for time in {**left.times, **right.times}}
    return _LinearSum({time: count for time, count in counts.items() if count}, left.length - right.length)


def _interval_length(node: exp.Interval) -> timedelta | None:
    unit = node.args.get("unit")
    try:
        return parse_duration(f"{node.this.name} {unit.name if unit is not None else ''}").to_timedelta()
    except WaterclockError:
        return None


def _find_newest_aliases(conditions: Sequence[Any]) -> set[str]:
    """Return the aliases of the reads in a condition `greatest(a.timelabel, ...) = TIMELABEL()`, or with `>=`."""
    for condition in conditions:
        sides = [condition.this, condition.expression] if isinstance(condition, exp.EQ | exp.GTE) else []
        calls = [side for side in sides if isinstance(side, exp.Anonymous) and side.name.upper() == "TIMELABEL"]
        greatest = [side for side in sides if isinstance(side, exp.Greatest)]
        if not calls or not greatest or (isinstance(condition, exp.GTE) and sides[0] is not greatest[0]):
            continue
        labels = [greatest[0].this, *greatest[0].expressions]
        if all(isinstance(label, exp.Column) and label.name.lower() == TIMELABEL for label in labels):
            return {label.table.lower() for label in labels}
    return set()


def _only_drops_late_rows(condition: Any) -> bool:
    """Return whether a condition compares a column with a watermark, and so only removes late rows."""
    sides = [condition.this, condition.expression] if isinstance(condition, exp.GT | exp.GTE) else []
    if isinstance(condition, exp.LT | exp.LTE):
        sides = [condition.expression, condition.this]
    return len(sides) == 2 and isinstance(sides[0], exp.Column) and is_mark(sides[1])


def _has_column(condition: Any, time: _At) -> bool:
    return any((node.table.lower(), node.name.lower()) == time for node in condition.find_all(exp.Column))


def _conditions(select: exp.Select) -> list[Any]:
    """Return the conditions, joined by AND, in the WHERE of a SELECT and in its joins except anti and semi joins."""
    where = select.args.get("where")
    joins = [join for join in select.args.get("joins") or () if (join.kind or "").upper() not in {"ANTI", "SEMI"}]
    return [
        *_split_conjunction(where.this if where else None),
        *(each for join in joins for each in _split_conjunction(join.args.get("on"))),
    ]


def _split_conjunction(condition: Any) -> list[Any]:
    if isinstance(condition, exp.Paren):
        return _split_conjunction(condition.this)
    if isinstance(condition, exp.And):
        return [*_split_conjunction(condition.this), *_split_conjunction(condition.expression)]
    return [] if condition is None else [condition]


def _sources(select: exp.Select, tables: Mapping[int, NamedTable]) -> Iterator[tuple[str, NamedTable]]:
    joins = (join.this for join in select.args.get("joins") or () if (join.kind or "").upper() not in {"ANTI", "SEMI"})
    first = select.args.get("from_")
    for node in ([first.this] if first is not None else []) + list(joins):
        if isinstance(node, exp.Table):
            yield from _list_named_tables(node, tables)


def _list_named_tables(node: exp.Table, tables: Mapping[int, NamedTable]) -> Iterator[tuple[str, NamedTable]]:
    start = start_of(node)
    table = tables.get(start) if start is not None else None
    if table is not None and not table.is_flat:
        yield (node.alias or table.alias or "").lower(), table
