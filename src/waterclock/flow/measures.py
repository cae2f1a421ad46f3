"""Measures: values computed for each batch while it is written, and rules that compare them with earlier batches."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from waterclock.timelabel.period import Period

MEASURED = "measured"
"""The key for values of MEASURE in the JSON object that the ledger stores for the measures of a revision."""
OFFLINE = "offline"
"""The key in that object for values that a separate job computed (MEASURE ... OFFLINE)."""
PASSED_OVER = "passed over"
"""The key in that object for rules that were not checked, because there were too few earlier batches to compare."""
GIVEN_UP = "given up: its rows were lost"
"""The warning that marks a label whose rows were lost; comparisons ignore such labels."""
ROWS = "rows"
PROFILED = (".nulls", ".distinct", ".min", ".max")
"""The endings of the names of PROFILE's values, after the column."""

_COUNT_OF_ROWS = re.compile(r"count\s*\(\s*[*1]\s*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MeasuredValue:
    """A measured value as the ledger stores it: the value as text (None for NULL), and the name of its Spark type."""

    value: str | None
    type: str

    def as_json(self) -> dict[str, str | None]:
        """Return the value as the JSON object that the ledger stores."""
        return {"value": self.value, "type": self.type}


def read_measured_values(measures: Mapping[str, Any]) -> dict[str, MeasuredValue]:
    """Return the measured values of a revision by name, including values of OFFLINE measures."""
    found = {**measures.get(MEASURED, {}), **measures.get(OFFLINE, {})}
    return {name: MeasuredValue(stored["value"], stored["type"]) for name, stored in found.items()}


@dataclass(frozen=True, slots=True)
class Measure:
    """A MEASURE: an aggregate (Spark SQL) over the rows of each batch, and its name."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Offline:
    """Measures that a separate job computes for done batches, once each `period`, optionally with a profile."""

    period: Period
    measures: tuple[Measure, ...] = ()
    is_profiled: bool = False

    @property
    def code(self) -> str:
        """A fingerprint of this declaration. Values that were computed with another fingerprint are computed again."""
        parts = [str(self.period), self.is_profiled, *([each.name, each.expression] for each in self.measures)]
        return blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()

    def name_of(self, aggregate: str) -> str | None:
        """Return the name of the measure with this aggregate, ignoring case and spaces; None if no measure has it."""
        plain = _plain(aggregate)
        return next((measure.name for measure in self.measures if _plain(measure.expression) == plain), None)


class ComparedSource(StrEnum):
    """The source of a value in a comparison: the batch itself, or one of the functions over earlier batches."""

    OWN = "own"
    LAST_GOOD = "last_good"
    USUAL = "usual"
    TREND = "trend"


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """A value in a rule that compares batches: an aggregate of the batch itself, or of earlier batches.

    `scales`: for `usual`, the number of spreads to add. `days`: for `trend`, the number of days back to compare with.
    """

    source: ComparedSource
    aggregate: str
    scales: float = 0.0
    days: int = 0

    def __str__(self) -> str:
        """Return the value as it is written in a rule: `usual(count(*), 3)`."""
        if self.source is ComparedSource.OWN:
            return self.aggregate
        second = self.days or self.scales
        more = f", {second:g}" if second else ""
        return f"{self.source}({self.aggregate}{more})"


@dataclass(frozen=True, slots=True)
class MeasureComparison:
    """A rule that compares a batch with earlier ones, split into `pieces` of text and `values` between them."""

    pieces: tuple[str, ...]
    values: tuple[ComparedValue, ...] = field(default=())

    @property
    def aggregates(self) -> tuple[str, ...]:
        """The distinct aggregates in the rule."""
        return tuple(dict.fromkeys(value.aggregate for value in self.values))

    def render(self, texts: Mapping[ComparedValue, str]) -> str:
        """Return the text of the rule with each value replaced by its text in `texts`."""
        parts = [self.pieces[0]]
        for value, piece in zip(self.values, self.pieces[1:], strict=True):
            parts += [texts[value], piece]
        return "".join(parts)


def _plain(aggregate: str) -> str:
    return "".join(aggregate.split()).lower()


def counts_rows(aggregate: str) -> bool:
    """Return whether an aggregate is `count(*)` or `count(1)`, which the ledger stores for every batch."""
    return _COUNT_OF_ROWS.fullmatch(aggregate) is not None
