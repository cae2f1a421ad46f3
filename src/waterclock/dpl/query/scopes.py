"""Finds the CTEs of WITH clauses that are in scope for a table reference."""

from __future__ import annotations

from typing import Any

from sqlglot import exp


def is_cte(node: exp.Table, name: str) -> bool:
    """Return whether a WITH that is in scope at a node defines a CTE with this name."""
    child: Any = node
    while child.parent is not None:
        parent = child.parent
        if isinstance(parent, exp.With):
            for cte in parent.expressions:
                if cte is child:
                    if parent.args.get("recursive") and _is_named(cte, name):
                        return True
                    break
                if _is_named(cte, name):
                    return True
        else:
            clause = parent.args.get("with_")
            others = clause.expressions if clause is not None and clause is not child else ()
            if any(_is_named(cte, name) for cte in others):
                return True
        child = parent
    return False


def written_ctes(tree: Any) -> set[str]:
    """Return the lower-case names of the CTEs that a query's WITH clauses define."""
    return {cte.alias.lower() for cte in tree.find_all(exp.CTE) if _is_written(cte)}


def _is_named(cte: exp.CTE, name: str) -> bool:
    return cte.alias.lower() == name.lower() and _is_written(cte)


def _is_written(cte: exp.CTE) -> bool:
    """Return whether a user wrote the CTE; sqlglot generates others for steps after |>."""
    return "start" in cte.args["alias"].this.meta
