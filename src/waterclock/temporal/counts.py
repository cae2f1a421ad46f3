"""Counts the rows that a temporal function leaves out and those of its result, while Spark computes the result."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as sql

from waterclock.errors import WaterclockError
from waterclock.temporal.version_statistics import FrameStatistics


class Counts:
    """The counts of one call of a temporal function, collected while Spark computes the result, without another job.

    `get` waits for the first action on the result. An action that reads only a part of the result (`limit`) counts that
    part. An action that evaluates the result twice counts twice: `orderBy` does, because it takes samples first; a
    write does not. If the result is empty, Spark drops the observed values; only then `get` starts a job.
    """

    def __init__(self) -> None:
        self._watched: list[tuple[Observation, DataFrame]] = []
        self._of: str | None = None

    def begin(self, function: str) -> None:
        """Reserve this object for one call of `function`. Raises E312 if another call uses it."""
        if self._of is not None:
            raise WaterclockError(
                "E312",
                f"this Counts object already belongs to a call of {self._of}",
                where=function,
                fix="pass a new Counts() to each call",
            )
        self._of = function

    def watch(self, df: DataFrame, **aggregates: Column) -> DataFrame:
        """Return the frame with an observation: Spark computes the named aggregates over its rows during an action."""
        observation, columns = Observation(), [column.alias(name) for name, column in aggregates.items()]
        self._watched.append((observation, df.agg(*columns)))
        return df.observe(observation, *columns)

    @property
    def get(self) -> dict[str, int]:
        """The counts by name. Waits for the first action on the result."""
        return {name: int(value or 0) for name, value in self._read_observed().items() if not name.startswith("_")}

    def numbers(self) -> FrameStatistics:
        """Return the statistics of a result of `compute_temporal`, by which a join with it chooses its plan.

        Raises E312 for counts of another function.
        """
        if self._of != "compute_temporal":
            raise WaterclockError(
                "E312",
                "this Counts object has no statistics of compute_temporal",
                fix="pass a new Counts() to compute_temporal, or call measure_temporal",
            )
        found = self._read_observed()
        versions, keys, most, long = (
            int(found[name] or 0) for name in ("versions", "keys", "most_versions", "long_keys")
        )
        return FrameStatistics(versions, keys, most, long, found["_first"], found["_last"])

    def _read_observed(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for observation, counted in self._watched:
            found |= _read(observation) or counted.collect()[0].asDict()
        return found


def count_where(condition: Column) -> Column:
    """Return an aggregate that counts the rows that meet a condition; `count_if` would first copy every row."""
    return sql.count(sql.when(condition, sql.lit(1)))


def _read(observation: Observation) -> dict[str, Any]:
    """Return the observed values by name, or an empty dict if Spark removed the observation of an empty result."""
    try:
        return observation.get
    except Exception as error:
        if "toPyRow" not in str(error):  # a row without columns, as PySpark reports it
            raise
        return {}
