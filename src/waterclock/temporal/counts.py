"""How many rows were left out, and how many came out? Known once the result was computed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Observation

from waterclock.errors import WaterclockError
from waterclock.temporal.numbers import Numbers


class Counts:
    """Holds what one function counts while its result is computed; it costs no job of its own.

    `get` waits for the first action on the result. An action that reads a part of it (`limit`) counts that part.
    """

    def __init__(self) -> None:
        self._observations: list[Observation] = []
        self._of: str | None = None

    def begin(self, function: str) -> None:
        """Take the counts for one result; E312 when they are another one's."""
        if self._of is not None:
            raise WaterclockError(
                "E312", f"counts of {self._of} used again", where=function, fix="give each call Counts() of its own"
            )
        self._of = function

    def watch(self, df: DataFrame, **aggregates: Column) -> DataFrame:
        """Give the frame with aggregates that are read off as it passes."""
        observation = Observation()
        self._observations.append(observation)
        return df.observe(observation, *(column.alias(name) for name, column in aggregates.items()))

    @property
    def get(self) -> dict[str, int]:
        """Each count by its name; waits for the result's first action."""
        found: dict[str, int] = {}
        for observation in self._observations:
            found |= {name: int(value or 0) for name, value in observation.get.items()}
        return found

    def numbers(self) -> Numbers:
        """What `compute_temporal` counted of its result, for choosing the plan of joins with it."""
        found = self.get
        return Numbers(found["versions"], found["keys"], found["most_versions"], found["long_keys"])
