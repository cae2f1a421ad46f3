"""What is counted of each batch while it is written, and rules that compare that with batches before it."""

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
"""Under which name the ledger keeps them among a revision's measures."""
OFFLINE = "offline"
"""Under which name what was counted offline stands beside them, where it is read together."""
PASSED_OVER = "passed over"
"""Under which name it keeps the rules that had nothing to compare with yet."""
GIVEN_UP = "given up: its rows were lost"
"""The warning of a label that holds no rows because they were lost: nothing is compared with it."""
ROWS = "rows"

_COUNT_OF_ROWS = re.compile(r"count\s*\(\s*[*1]\s*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Measured:
    """One value as the ledger keeps it: Spark's own text of it, NULL as None, and Spark's name of its type."""

    value: str | None
    type: str

    def as_json(self) -> dict[str, str | None]:
        """Return it as it is written down."""
        return {"value": self.value, "type": self.type}


def measured_in(measures: Mapping[str, Any]) -> dict[str, Measured]:
    """Return the values that are kept among a revision's measures, and beside them offline, by their names."""
    found = {**measures.get(MEASURED, {}), **measures.get(OFFLINE, {})}
    return {name: Measured(said["value"], said["type"]) for name, said in found.items()}


@dataclass(frozen=True, slots=True)
class Measure:
    """A MEASURE: an aggregate (Spark SQL) of each batch's own rows, with the name that its values are kept under."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Offline:
    """Measures that a job of their own counts of the batches that are done, once each `period`; a profile as well."""

    period: Period
    measures: tuple[Measure, ...] = ()
    is_profiled: bool = False

    @property
    def code(self) -> str:
        """What tells one declaration from another: what was counted under an older one is counted anew."""
        said = [str(self.period), self.is_profiled, *([each.name, each.expression] for each in self.measures)]
        return blake2b(json.dumps(said).encode(), digest_size=12).hexdigest()

    def name_of(self, aggregate: str) -> str | None:
        """Return under which name an aggregate is kept, however it is spaced; None where it is not counted."""
        plain = _plain(aggregate)
        return next((measure.name for measure in self.measures if _plain(measure.expression) == plain), None)


class Source(StrEnum):
    """Where a value of a comparison comes from."""

    OWN = "own"
    LAST_GOOD = "last_good"
    USUAL = "usual"
    TREND = "trend"


@dataclass(frozen=True, slots=True)
class Compared:
    """One value in a rule: an aggregate of the batch itself, or the same of batches before it.

    `scales`: of `usual`, how many times its ordinary spread is added. `days`: of `trend`, how far back it compares.
    """

    source: Source
    aggregate: str
    scales: float = 0.0
    days: int = 0

    def __str__(self) -> str:
        """Return it as it is written."""
        if self.source is Source.OWN:
            return self.aggregate
        second = self.days or self.scales
        more = f", {second:g}" if second else ""
        return f"{self.source}({self.aggregate}{more})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A rule of the batch that asks what was before it: its text, with a value between every two pieces."""

    pieces: tuple[str, ...]
    values: tuple[Compared, ...] = field(default=())

    @property
    def aggregates(self) -> tuple[str, ...]:
        """What is counted of each batch for it, each once."""
        return tuple(dict.fromkeys(value.aggregate for value in self.values))

    def rendered(self, texts: Mapping[Compared, str]) -> str:
        """Return the rule with a text in place of each value."""
        parts = [self.pieces[0]]
        for value, piece in zip(self.values, self.pieces[1:], strict=True):
            parts += [texts[value], piece]
        return "".join(parts)


def _plain(aggregate: str) -> str:
    return "".join(aggregate.split()).lower()


def counts_rows(aggregate: str) -> bool:
    """Tell whether an aggregate is the number of the batch's rows, which the ledger knows of every batch."""
    return _COUNT_OF_ROWS.fullmatch(aggregate) is not None
