"""Defines the skew of a batch: how unevenly Spark's tasks read the rows that an exchange moved between them. Pure data.

A warning needs both: the largest task has more than `MOST_RATIO` times the bytes of the median task, and this is felt,
since it has more than `LARGE` bytes or its stage ran for more than `LONG` seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

SKEW = "skew"
"""The measure of a batch with its skew: the fields of `TaskSkew`, or `unknown` with the reason."""
UNKNOWN = "unknown"
MOST_RATIO = 5.0
"""Adaptive execution splits partitions of a join from this ratio on, too."""
LARGE = 256 << 20
"""The compressed bytes of a task from which adaptive execution splits partitions of a join."""
LONG = 60.0
_UNITS = ("bytes", "KB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True)
class TaskSkew:
    """The reads of one exchange by the tasks of a stage.

    `exchange`: the part of the query that needs it, the operator of the plan and the keys. `tasks`: those of the stage.
    `median` and `largest`: the compressed bytes that a task read, exact to four digits, without tasks that read none.
    Of two tasks, the median is the smaller one. If one task read all rows, `tasks` is 1 and the median 0. `seconds`:
    how long the stage ran, 0 if one task read all rows.
    """

    exchange: str
    tasks: int
    median: int
    largest: int
    seconds: float

    @property
    def is_felt(self) -> bool:
        """Whether a warning is due."""
        is_long = self.tasks > 1 and self.seconds > LONG
        return self.largest > MOST_RATIO * self.median and (self.largest > LARGE or is_long)

    def as_json(self) -> dict[str, Any]:
        """Return the skew as the JSON object that the ledger stores."""
        return asdict(self)

    def __str__(self) -> str:
        """Return the skew in words: the tasks, the largest and the median, the time of the stage, and the exchange."""
        if self.tasks == 1:
            return f"one task read {_size(self.largest)}, and the others nothing, for {self.exchange}"
        times = f", {self.largest / self.median:.1f} times the median" if self.median else ""
        return (
            f"of {self.tasks} tasks the largest read {_size(self.largest)}{times}, in a stage of {self.seconds:.1f} s, "
            f"for {self.exchange}"
        )


def skew_words(measures: Mapping[str, Any]) -> str:
    """Return the skew of a batch in words, from the measures of its revision; "" if none is recorded."""
    found = measures.get(SKEW)
    if not found:
        return ""
    return f"unknown: {found[UNKNOWN]}" if UNKNOWN in found else str(TaskSkew(**found))


def skew_warnings(measures: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a warning if the skew of a batch is felt."""
    found = measures.get(SKEW)
    if not found or UNKNOWN in found or not (skew := TaskSkew(**found)).is_felt:
        return ()
    return (f"skew: {skew}",)


def _size(count: float) -> str:
    unit = 0
    while count >= 1000 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"
