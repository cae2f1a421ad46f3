"""Computes which columns of a table a query needs, and conditions that are true for all rows that it needs.

The result may contain too many columns and too few conditions, which costs time and changes no result.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlglot import exp

from waterclock.dpl.syntax.tokens import dialect
from waterclock.flow.declarations import Query

_COMPARED = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_PLAIN = re.compile(r"[^\\'\"]*")  # a text without characters that two parsers may read differently
_NAMED_BY_TEXT = re.compile(r"\bIDENTIFIER\s*\(", re.IGNORECASE)
_MOST_VALUES, _MOST_CONDITIONS = 500, 50  # limits of databases for parameters, and for nested conditions
_WHOLE = re.compile(r"[0-9]{1,18}")
_REVERSED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class PushedCondition:
    """A comparison of a column by `=` with any of `values`, or by `<`, `<=`, `>` or `>=` with its only value."""

    column: str
    operator: str
    values: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Pushdown:
    """The columns of a table that a query may read, and conditions that are true for each row that it needs."""

    columns: frozenset[str]
    conditions: tuple[PushedCondition, ...] = ()


def find_pushdown(query: Query, table: str, types: Mapping[str, str]) -> Pushdown:
    """Return the columns of `table` that a query needs, and conditions on its rows; `types` are its columns' types.

    Conditions are returned only if the query names the table once, and not in a view. They are the parts of its WHERE,
    joined by AND, that compare STRING columns with strings or BIGINT columns with whole numbers.
    """
    everything = Pushdown(frozenset(types))
    tree = _parse_query(query.text)
    if tree is None or any(reference.view is not None for reference in query.tables) or _may_read_all(tree):
        return everything
    if "|>" in query.text or _NAMED_BY_TEXT.search(query.text):
        return everything  # a step after a pipe reads the result of the query before it
    named = {each.name.lower() for each in tree.find_all(exp.Identifier)}
    columns = frozenset(column for column in types if column.lower() in named)
    found = [each for each in tree.find_all(exp.Table) if f"{each.db}.{each.name}".lower() == table]
    conditions = islice(_find_conditions(found[0], types), _MOST_CONDITIONS) if len(found) == 1 else ()
    return Pushdown(columns, tuple(conditions))


def _parse_query(text: str) -> Any:
    try:
        [tree] = dialect().parse(text)
    except Exception:  # noqa: BLE001 - Spark reports the error
        return None
    return tree if isinstance(tree, exp.Query) else None


def _may_read_all(tree: Any) -> bool:
    """Return whether the query may read columns that its text does not name."""
    if any(not isinstance(star.parent, exp.Count) or any(star.args.values()) for star in tree.find_all(exp.Star)):
        return True
    if any(alias.columns for alias in tree.find_all(exp.TableAlias)):  # the alias renames them
        return True
    if any(str(join.method).upper() == "NATURAL" for join in tree.find_all(exp.Join)):
        return True
    if any(not select.expressions for select in tree.find_all(exp.Select)):  # FROM x, and pipes
        return True
    return tree.find(exp.Pivot, exp.Command, exp.QueryTransform, exp.Lateral) is not None


def _find_conditions(table: Any, types: Mapping[str, str]) -> Iterator[PushedCondition]:
    select = table.parent.parent if isinstance(table.parent, exp.From | exp.Join) else None
    if not isinstance(select, exp.Select) or table.args.get("sample") or not select.args.get("where"):
        return
    if isinstance(table.parent, exp.Join) and str(table.parent.kind).upper() in {"SEMI", "ANTI"}:
        return  # its columns are not visible in WHERE
    is_alone = not select.args.get("joins") and not select.args.get("laterals")
    where = select.args["where"].this
    for part in where.flatten() if isinstance(where, exp.And) else [where]:
        for column, operator, values in _split_comparison(part.unnest()):
            is_of_it = column.table.lower() == table.alias_or_name.lower() if column.table else is_alone
            kind = types.get(column.name.lower())
            known = [_literal_value(value, kind) for value in values]
            if is_of_it and kind is not None and known and None not in known and len(known) <= _MOST_VALUES:
                yield PushedCondition(
                    column.name.lower(), operator, tuple(value for value in known if value is not None)
                )


def _split_comparison(part: Any) -> Iterator[tuple[Any, str, Collection[Any]]]:
    """Split a comparison of a column with literals into column, operator and values."""
    if isinstance(part, exp.In) and isinstance(part.this, exp.Column) and not part.args.get("query"):
        yield part.this, "=", part.expressions
    elif isinstance(part, exp.Between) and isinstance(part.this, exp.Column) and not part.args.get("symmetric"):
        yield part.this, ">=", [part.args["low"]]
        yield part.this, "<=", [part.args["high"]]
    elif type(part) in _COMPARED:
        operator = _COMPARED[type(part)]
        if isinstance(part.this, exp.Column):
            yield part.this, operator, [part.expression]
        elif isinstance(part.expression, exp.Column):
            yield part.expression, _REVERSED[operator], [part.this]


def _literal_value(literal: Any, kind: str | None) -> str | int | None:
    if not isinstance(literal, exp.Literal):
        return None
    text = str(literal.this)
    if literal.is_string:
        return text if kind == "STRING" and _PLAIN.fullmatch(text) else None
    return int(text) if kind == "BIGINT" and _WHOLE.fullmatch(text) else None
