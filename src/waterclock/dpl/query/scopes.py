"""Which names a WITH puts in sight of a table reference."""

from __future__ import annotations

from typing import Any

from sqlglot import exp


def is_cte(node: exp.Table, name: str) -> bool:
    """Tell whether a WITH that is in sight of the node defines this name."""
    child: Any = node
    while child.parent is not None:
        parent = child.parent
        if isinstance(parent, exp.With):
            for cte in parent.expressions:
                if cte is child:
                    if parent.args.get("recursive") and cte.alias.lower() == name.lower():
                        return True
                    break
                if cte.alias.lower() == name.lower():
                    return True
        else:
            clause = parent.args.get("with_")
            others = clause.expressions if clause is not None and clause is not child else ()
            if any(cte.alias.lower() == name.lower() for cte in others):
                return True
        child = parent
    return False
