"""Counts the rows that were left out and those that came out; known once the result was computed."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as sql

from waterclock.errors import WaterclockError
from waterclock.temporal.measure import Numbers


class Counts:
    """Holds what one function counts while its result is computed; it costs no job of its own.

    `get` waits for the first action on the result. An action that reads a part of it (`limit`) counts that part, and
    one that evaluates it twice counts twice: a global sort above it does (`orderBy` takes samples first), a write does
    not. Where nothing is left of a result, Spark forgets what it observed: then, and only then, `get` counts by a job
    of its own.
    """

    def __init__(self) -> None:
        self._watched: list[tuple[Observation, DataFrame]] = []
        self._of: str | None = None

    def begin(self, function: str) -> None:
        """Take the counts for one result; E312 when they are another one's."""
        if self._of is not None:
            raise WaterclockError(
                "E312", f"counts of {self._of} used again", where=function, fix="give each call Counts() of its own"
            )
        self._of = function

    def watch(self, df: DataFrame, **aggregates: Column) -> DataFrame:
        """Return the frame with aggregates that are read off as it passes."""
        observation, columns = Observation(), [column.alias(name) for name, column in aggregates.items()]
        self._watched.append((observation, df.agg(*columns)))
        return df.observe(observation, *columns)

    @property
    def get(self) -> dict[str, int]:
        """Each count by its name, without those that `numbers` alone needs; waits for the result's first action."""
        return {name: int(value or 0) for name, value in self._seen().items() if not name.startswith("_")}

    def numbers(self) -> Numbers:
        """What `compute_temporal` counted of its result, for choosing the plan of joins with it.

        Raises  E312 for counts of another function
        """
        if self._of != "compute_temporal":
            raise WaterclockError(
                "E312",
                f"counts of {self._of or 'nothing yet'} have no numbers",
                fix="give compute_temporal Counts() of its own, or ask measure_temporal",
            )
        found = self._seen()
        versions, keys, most, long = (
            int(found[name] or 0) for name in ("versions", "keys", "most_versions", "long_keys")
        )
        return Numbers(versions, keys, most, long, found["_first"], found["_last"])

    def _seen(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for observation, counted in self._watched:
            found |= _read(observation) or counted.collect()[0].asDict()
        return found


def count_where(condition: Column) -> Column:
    """Count rows; `count_if` would be computed beside every row first, by copying it."""
    return sql.count(sql.when(condition, sql.lit(1)))


def _read(observation: Observation) -> dict[str, Any]:
    """Return what was observed; nothing where Spark found the result empty on its way and cut the plan off above."""
    try:
        return observation.get
    except Exception as error:
        if "toPyRow" not in str(error):  # a row without columns: PySpark's way to say so
            raise
        return {}
