"""Determines which columns identify the rows of a query, from the keys of its input tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.column_scope import start_of
from waterclock.dpl.query.projections import makes_rows
from waterclock.flow.declarations import Flow, Read, Table
from waterclock.flow.enums import Mode, ReadKind
from waterclock.flow.merge_settings import RECORD
from waterclock.timelabel.label import TIMELABEL


def keys_of_table(flow: Flow, read: Read, reader: Table | None) -> tuple[str, ...]:
    """Return the columns that identify the rows of an input table, in lower case; empty if the table has no key.

    The key of an APPEND table is unique only within a batch; across batches, `timelabel` is added to it.
    """
    table = flow.tables[read.table]
    keys = tuple(name.lower() for name in table.keys)
    if not keys or table.temporal is not None:
        return (*keys, RECORD[0]) if keys else ()
    is_one_slice = (
        table.is_partitioned and reader is not None and read.kind is ReadKind.PLAIN and reader.cadence == table.cadence
    )
    return (*keys, TIMELABEL) if table.mode is Mode.APPEND and not is_one_slice else keys


class Uniqueness:
    """Determines whether rows of a query are unique or ordered.

    `keys_at` maps the offset of each input table in the query's text to the table's key columns.
    """

    def __init__(self, keys_at: Mapping[int, tuple[str, ...]]) -> None:
        self.keys_at = keys_at

    def is_unique_by(self, select: exp.Select, columns: Iterable[Any]) -> bool:
        """Return whether `columns` certainly identify the rows of a SELECT's FROM and joins.

        The rows of a join are identified by the keys of all its sources together. The key of a joined source is not
        needed if the join's condition equates all its columns, except in a RIGHT or FULL join, which can make the other
        keys NULL.
        """
        named = {(each.table.lower(), each.name.lower()) for each in columns if isinstance(each, exp.Column)}
        from_ = select.args.get("from_")
        if from_ is None:
            return True
        wanted: list[tuple[str, str]] = []
        for source, on in [(from_.this, None), *((join.this, join) for join in select.args.get("joins") or ())]:
            keys = self._keys(source)
            if keys is None:
                return False
            is_looked_up = on is not None and on.side not in {"RIGHT", "FULL"}
            if not is_looked_up or not set(keys) <= set(_list_equated_columns(on, source.alias_or_name)):
                wanted += [(source.alias_or_name.lower(), key) for key in keys]
        is_named = all(("", key) in named or (alias, key) in named for alias, key in wanted)
        return is_named and not (select.args.get("laterals") or ())

    def is_ordered(self, query: Any, order: exp.Order) -> bool:
        """Return whether rows of a query with equal values in ORDER BY certainly are equal in all columns."""
        selects = query.selects
        outputs = {each.alias_or_name.lower(): each.unalias() for each in selects if not each.is_star}
        columns = [_resolve_output(each.this, outputs) for each in order.expressions]
        if any(isinstance(each, exp.Var) and each.name.upper() == "ALL" for each in columns):
            return True
        named = set(map(_canonical_text, columns))
        if len(outputs) == len(selects) and {_canonical_text(each) for each in outputs.values()} <= named:
            return True
        if not isinstance(query, exp.Select) or query.args.get("distinct"):
            return False
        group = query.args.get("group")
        if group is None:
            return self.is_unique_by(query, columns)
        grouped = [_resolve_output(each, outputs) for each in group.expressions]
        if group.args.get("all"):
            grouped += [each for each in outputs.values() if each.find(exp.AggFunc) is None]
        is_plain = not any(group.args.get(part) for part in ("cube", "rollup", "grouping_sets"))
        return is_plain and set(map(_canonical_text, grouped)) <= named

    def _keys(self, source: Any) -> tuple[str, ...] | None:
        if source.args.get("pivots"):
            return None
        if isinstance(source, exp.Table):
            start = start_of(source)
            found = self.keys_at.get(start) if start is not None else None
            if found is None and not source.args.get("db"):
                cte = _find_cte(source, source.name)
                return self.of_query(cte.this) if cte is not None else None
            return found or None
        if isinstance(source, exp.Subquery):
            return self.of_query(source.this)
        return None

    def of_query(self, query: Any) -> tuple[str, ...] | None:
        """Return columns of a query's result that identify its rows; None if they are not known."""
        if not isinstance(query, exp.Select):
            return None
        outputs = {_canonical_text(each): each.alias_or_name.lower() for each in query.expressions if not each.is_star}
        group = query.args.get("group")
        if group is not None:
            wanted = [_canonical_text(each) for each in group.expressions]
            is_plain = not any(group.args.get(part) for part in ("cube", "rollup", "grouping_sets", "all"))
            return tuple(outputs[name] for name in wanted) if is_plain and set(wanted) <= outputs.keys() else None
        if query.args.get("distinct") and not any(each.is_star for each in query.expressions):
            return tuple(outputs.values())
        return self._find_output_keys(query, outputs)

    def _find_output_keys(self, query: exp.Select, outputs: Mapping[str, str]) -> tuple[str, ...] | None:
        from_ = query.args.get("from_")
        if from_ is None or query.args.get("joins") or query.args.get("laterals"):
            return None
        if any(
            makes_rows(each.this if isinstance(each, exp.Aliases) else each.unalias()) for each in query.expressions
        ):
            return None
        keys = self._keys(from_.this)
        has_star = any(each.is_star for each in query.expressions)
        named = {**({key: key for key in keys or ()} if has_star else {}), **outputs}
        return tuple(named[key] for key in keys) if keys and set(keys) <= named.keys() else None


def _canonical_text(node: Any) -> str:
    inner = node.unalias()
    return inner.name.lower() if isinstance(inner, exp.Column) else str(inner.sql(dialect="databricks").lower())


def _resolve_output(node: Any, outputs: Mapping[str, Any]) -> Any:
    """Return the SELECT item to which a name or number in ORDER BY or GROUP BY refers; else the node itself."""
    if isinstance(node, exp.Literal) and node.is_int and 0 < int(node.name) <= len(outputs):
        return list(outputs.values())[int(node.name) - 1]
    if isinstance(node, exp.Column) and not node.table:
        return outputs.get(node.name.lower(), node)
    return node


def _list_equated_columns(join: Any, alias: str) -> Iterator[str]:
    """Yield the columns of the source `alias` that the join's condition equates with columns of other sources."""
    yield from (column.name.lower() for column in join.args.get("using") or ())
    on = join.args.get("on")
    for part in on.flatten() if isinstance(on, exp.And) else [on]:
        sides = [part.this, part.expression] if isinstance(part, exp.EQ) else []
        if len(sides) == 2 and all(isinstance(side, exp.Column) for side in sides):
            own = [side.table.lower() == alias.lower() for side in sides]
            yield from (side.name.lower() for side, is_own in zip(sides, own, strict=True) if is_own and not all(own))


def _find_cte(node: Any, name: str) -> Any:
    """Return the CTE with a name that is in scope at a node; None if there is none."""
    while node is not None:
        clause = node.args.get("with_")
        for cte in clause.expressions if clause is not None else ():
            if cte.alias.lower() == name.lower():
                return cte
        node = node.parent
    return None
