"""Finds calls of aggregates, of Spark's and of those that Waterclock adds, in an expression's syntax tree."""

from __future__ import annotations

from sqlglot import exp

OWN_AGGREGATES = frozenset({"skew", "k_anonymity", "l_diversity"})
"""The lower-case names of the aggregates that Waterclock adds (see `dpl.query.aggregates`)."""


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node of an expression is an aggregate of Spark or of Waterclock."""
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and node.name.lower() in OWN_AGGREGATES)


def has_aggregate(tree: exp.Expression) -> bool:
    """Return whether an expression contains an aggregate that is not used as a window function."""
    return any(
        is_aggregate(node) and not isinstance(node.parent, exp.Window | exp.IgnoreNulls | exp.RespectNulls)
        for node in tree.find_all(exp.AggFunc, exp.Anonymous)
    )
