"""Recognizes queries that make each row of their result from one row of the table that they select from."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from waterclock.dpl.query.column_scope import start_of
from waterclock.dpl.query.spark_functions import GENERATORS, SCALARS
from waterclock.dpl.syntax.tokens import dialect
from waterclock.flow.declarations import Query, Read

_PARTS = frozenset({"expressions", "from_", "joins", "where"})
_MANY_ROWS = (exp.Query, exp.AggFunc, exp.Window, exp.Lateral, exp.Pivot, exp.TableSample, exp.Hint)
_CALLED = SCALARS | GENERATORS
# words before a bracket that are no calls
_WORDS = frozenset(
    "and as between case else from in inner join left like not on or outer select then using when where".split()
)


def find_row_source(query: Query) -> Read | None:
    """Return the input from whose rows, one by one, a query makes the rows of its result; None for other queries.

    New rows of this input then add rows to the result, and change none, while the rows of all other inputs stay the
    same. The query is one SELECT from this input, with a WHERE and with inner or left joins of other tables, that calls
    only functions of Spark on values. Other queries are left out, also if they are of this kind.
    """
    reads = {each.start: each.read for each in query.tables}
    if query.branches or not reads or None in reads.values() or any(each.is_mark for each in query.tables):
        return None
    tree = _parse(query.text)
    if tree is None or not _is_row_by_row(tree) or not _calls_known_functions(query):
        return None
    source = tree.args["from_"].this
    read = reads.get(start_of(source) or -1)
    return read if read is not None and list(reads.values()).count(read) == 1 else None


@lru_cache(maxsize=256)
def _parse(text: str) -> Any:
    try:
        [tree] = dialect().parse(text)
    except Exception:  # noqa: BLE001 - Spark reports the error
        return None
    return tree if isinstance(tree, exp.Select) and "|>" not in text else None


def _is_row_by_row(select: Any) -> bool:
    if {name for name, value in select.args.items() if value} - _PARTS or not select.args.get("from_"):
        return False
    joins = select.args.get("joins") or ()
    sources = [select.args["from_"].this, *(join.this for join in joins)]
    if not all(isinstance(each, exp.Table) and not each.args.get("joins") for each in sources):
        return False
    if any(str(join.side).upper() not in {"", "LEFT"} for join in joins):
        return False
    return not any(isinstance(node, _MANY_ROWS) for node in select.walk() if node is not select)


def _calls_known_functions(query: Query) -> bool:
    """Return whether a query calls only functions on single values. It reads the tokens, which the tree may hide."""
    values = {each.start for each in query.values}
    for before, token in pairwise(dialect().tokenize(query.text)):
        if token.token_type is not TokenType.L_PAREN or not before.text.replace("_", "a").isalnum():
            continue
        is_known = before.token_type is not TokenType.IDENTIFIER and before.text.lower() in _CALLED | _WORDS
        if not is_known and before.start not in values:
            return False
    return True
