"""What a plan will cost, told from how long the batches of each table took so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from waterclock.batches.facts import LedgerSnapshot
from waterclock.planner.plan import Plan


@dataclass(frozen=True, slots=True)
class TableCost:
    """What one table has to do: so many batches, and the seconds they will take one after the other.

    `seconds` is None for a table none of whose batches has run yet.
    """

    batches: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a plan by table, upstream first; seconds are those of the work, of which much goes side by side."""

    tables: Mapping[str, TableCost]

    @property
    def batches(self) -> int:
        """Count all batches, those that the plan's cap left out among them."""
        return sum(cost.batches for cost in self.tables.values())

    @property
    def seconds(self) -> float:
        """Add up what is known; tables that have never run add nothing."""
        return sum(cost.seconds or 0.0 for cost in self.tables.values())

    @property
    def unknown(self) -> tuple[str, ...]:
        """Name the tables that have never run."""
        return tuple(name for name, cost in self.tables.items() if cost.seconds is None)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate for JSON."""
        tables = {name: {"batches": cost.batches, "seconds": cost.seconds} for name, cost in self.tables.items()}
        return {"batches": self.batches, "seconds": self.seconds, "unknown": list(self.unknown), "tables": tables}


def estimate(plan: Plan, snapshot: LedgerSnapshot) -> Estimate:
    """Tell what a plan costs from the mean seconds of past batches; costs nothing itself."""
    counts = Counter(batch.table for batch in plan.batches)
    counts.update(plan.left_out)
    return cost_of(counts, snapshot)


def cost_of(batches: Mapping[str, int], snapshot: LedgerSnapshot) -> Estimate:
    """Tell what so many batches by table cost, from the mean seconds of past ones."""
    tables = {}
    for name, count in batches.items():
        mean = snapshot.of(name).seconds_per_batch
        tables[name] = TableCost(count, None if mean is None and count else (mean or 0.0) * count)
    return Estimate(tables)
