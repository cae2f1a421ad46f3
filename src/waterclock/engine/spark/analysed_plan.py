"""Returns Spark's analysed plan of a DataFrame as JSON, with the ids of all attributes.

PySpark's public API only prints a plan, shortened and without escaping names. So this module uses private API, and
returns None if that fails: over Spark Connect, and if Spark cannot write its plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def shows_plan(frame: DataFrame) -> bool:
    """Return whether Spark's plan of this DataFrame is available, at no cost."""
    return getattr(frame, "_jdf", None) is not None


def analysed_plan(frame: DataFrame) -> str | None:
    """Return Spark's analysed plan as JSON, or None if it is not available. Cost: no job, some milliseconds."""
    behind = getattr(frame, "_jdf", None)
    if behind is None:
        return None
    try:
        return str(behind.queryExecution().analyzed().toJSON())
    except Exception:  # noqa: BLE001 - the batch continues without its lineage
        return None
