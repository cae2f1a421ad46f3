"""Asks Spark for the plan of a DataFrame as it was analysed, with the ids of all attributes.

Public PySpark prints a plan for people, cut short and without what names may hold. So this one module goes behind it,
and gives nothing where that cannot be done: over Spark Connect, and wherever Spark does not write its plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def shows_plan(frame: DataFrame) -> bool:
    """Tell whether Spark shows the plan of a DataFrame here; what is asked costs nothing."""
    return getattr(frame, "_jdf", None) is not None


def analysed_plan(frame: DataFrame) -> str | None:
    """Return the analysed plan in JSON; None where it cannot be had. Cost: no job, some milliseconds."""
    behind = getattr(frame, "_jdf", None)
    if behind is None:
        return None
    try:
        return str(behind.queryExecution().analyzed().toJSON())
    except Exception:  # noqa: BLE001 - whatever hinders it, the batch goes on: only its lineage is not known
        return None
