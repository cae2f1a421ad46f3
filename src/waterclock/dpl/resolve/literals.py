"""Formats variables of the project as Spark SQL literals, for expressions that cannot have parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from waterclock.dpl.syntax.statements import Expression


def literal(value: Any) -> str:
    """Return a value as a Spark SQL literal of the same type that it would have as a parameter."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value) if value >= 0 else f"({value})"
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) and math.copysign(1, value) > 0 else f"double('{value!r}')"
    if isinstance(value, datetime):
        kind = "TIMESTAMP" if value.tzinfo else "TIMESTAMP_NTZ"
        return f"{kind} '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    quoted = str(value).replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{quoted}'"


def with_literals(expression: Expression, variables: Mapping[str, Any]) -> str:
    """Return the text of an expression with each `:name` replaced by its value as a literal."""
    return expression.text_with({name: literal(variables[name]) for name in expression.variables if name in variables})
