"""Finds the CTEs of WITH clauses that are in scope for a table reference."""

from __future__ import annotations

from typing import Any

from sqlglot import exp


class CteScopes:
    """The scopes of the CTEs in a syntax tree, which must not change. Reads each WITH once."""

    def __init__(self) -> None:
        self._clauses: dict[int, tuple[exp.With, dict[str, int], dict[int, int]]] = {}

    def is_cte(self, node: exp.Table, name: str) -> bool:
        """Return whether a WITH that is in scope at a node defines a CTE with this name."""
        child: Any = node
        lower = name.lower()
        while child.parent is not None:
            parent = child.parent
            if isinstance(parent, exp.With):
                names, indexes = self._read(parent)
                first, own = names.get(lower), indexes.get(id(child), len(indexes))
                if first is not None and (first < own or (first == own and parent.args.get("recursive"))):
                    return True
            else:
                clause = parent.args.get("with_")
                if clause is not None and clause is not child and lower in self._read(clause)[0]:
                    return True
            child = parent
        return False

    def _read(self, clause: exp.With) -> tuple[dict[str, int], dict[int, int]]:
        """Return the first index of each name that a WITH defines, and the index of each CTE by its identity."""
        if id(clause) not in self._clauses:
            names: dict[str, int] = {}
            for index, cte in enumerate(clause.expressions):
                if _is_written(cte):
                    names.setdefault(cte.alias.lower(), index)
            indexes = {id(cte): index for index, cte in enumerate(clause.expressions)}
            self._clauses[id(clause)] = (clause, names, indexes)  # keeps the WITH, so that its identity stays its own
        return self._clauses[id(clause)][1:]


def written_ctes(tree: Any) -> set[str]:
    """Return the lower-case names of the CTEs that a query's WITH clauses define."""
    return {cte.alias.lower() for cte in tree.find_all(exp.CTE) if _is_written(cte)}


def _is_written(cte: exp.CTE) -> bool:
    """Return whether a user wrote the CTE; sqlglot generates others for steps after |>."""
    return "start" in cte.args["alias"].this.meta
