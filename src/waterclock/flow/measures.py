"""Measures taken of each batch while it is written, and rules that compare them with earlier batches."""

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
"""The key of the measured values among a revision's measures in the ledger."""
OFFLINE = "offline"
"""The key of values that were measured offline, next to the others."""
PASSED_OVER = "passed over"
"""The key of the rules that had nothing to compare with yet."""
GIVEN_UP = "given up: its rows were lost"
"""The warning of a label without rows because they were lost: it is not used in comparisons."""
ROWS = "rows"

_COUNT_OF_ROWS = re.compile(r"count\s*\(\s*[*1]\s*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Measured:
    """One value in the ledger: Spark's own text of it, NULL as None, and Spark's name of its type."""

    value: str | None
    type: str

    def as_json(self) -> dict[str, str | None]:
        """Return the value as it is stored."""
        return {"value": self.value, "type": self.type}


def read_measured_values(measures: Mapping[str, Any]) -> dict[str, Measured]:
    """Return the values among a revision's measures by name, including the offline ones."""
    found = {**measures.get(MEASURED, {}), **measures.get(OFFLINE, {})}
    return {name: Measured(said["value"], said["type"]) for name, said in found.items()}


@dataclass(frozen=True, slots=True)
class Measure:
    """A MEASURE: an aggregate (Spark SQL) of each batch's own rows, and the name of its values."""

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
        """A fingerprint of the declaration: values measured under an older one are measured again."""
        said = [str(self.period), self.is_profiled, *([each.name, each.expression] for each in self.measures)]
        return blake2b(json.dumps(said).encode(), digest_size=12).hexdigest()

    def name_of(self, aggregate: str) -> str | None:
        """Return the name of an aggregate's values, whatever its spacing, or None if it is not measured."""
        plain = _plain(aggregate)
        return next((measure.name for measure in self.measures if _plain(measure.expression) == plain), None)


class ComparedSource(StrEnum):
    """The source of a value in a comparison."""

    OWN = "own"
    LAST_GOOD = "last_good"
    USUAL = "usual"
    TREND = "trend"


@dataclass(frozen=True, slots=True)
class Compared:
    """One value in a rule: an aggregate of the batch itself, or the same of earlier batches.

    `scales`: for `usual`, how many spreads are added. `days`: for `trend`, how many days back it compares.
    """

    source: ComparedSource
    aggregate: str
    scales: float = 0.0
    days: int = 0

    def __str__(self) -> str:
        """Return the text as it is written in the rule."""
        if self.source is ComparedSource.OWN:
            return self.aggregate
        second = self.days or self.scales
        more = f", {second:g}" if second else ""
        return f"{self.source}({self.aggregate}{more})"


@dataclass(frozen=True, slots=True)
class MeasureComparison:
    """A rule of the batch that compares it with earlier ones: its text in pieces, with a value between each two."""

    pieces: tuple[str, ...]
    values: tuple[Compared, ...] = field(default=())

    @property
    def aggregates(self) -> tuple[str, ...]:
        """The distinct aggregates that it needs of each batch."""
        return tuple(dict.fromkeys(value.aggregate for value in self.values))

    def render(self, texts: Mapping[Compared, str]) -> str:
        """Return the rule with a text in place of each value."""
        parts = [self.pieces[0]]
        for value, piece in zip(self.values, self.pieces[1:], strict=True):
            parts += [texts[value], piece]
        return "".join(parts)


def _plain(aggregate: str) -> str:
    return "".join(aggregate.split()).lower()


def counts_rows(aggregate: str) -> bool:
    """Return whether an aggregate is the number of the batch's rows, which the ledger has for every batch."""
    return _COUNT_OF_ROWS.fullmatch(aggregate) is not None
