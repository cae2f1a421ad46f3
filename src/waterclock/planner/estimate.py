"""Estimates the cost of a plan from the durations of past batches of each table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.planner.plan import Plan


@dataclass(frozen=True, slots=True)
class TableCost:
    """The cost of one table: its number of batches, and the sum of their seconds, None if the table has never run."""

    batches: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a plan by table, upstream first. Seconds are summed over batches, many of which run in parallel."""

    tables: Mapping[str, TableCost]

    @property
    def batches(self) -> int:
        """The number of all batches, including those beyond the plan's limit per table."""
        return sum(cost.batches for cost in self.tables.values())

    @property
    def seconds(self) -> float:
        """The sum of the known seconds; tables that have never run add 0."""
        return sum(cost.seconds or 0.0 for cost in self.tables.values())

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the tables that have never run."""
        return tuple(name for name, cost in self.tables.items() if cost.seconds is None)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as a dictionary for JSON."""
        tables = {name: {"batches": cost.batches, "seconds": cost.seconds} for name, cost in self.tables.items()}
        return {"batches": self.batches, "seconds": self.seconds, "unknown": list(self.unknown), "tables": tables}


def estimate(plan: Plan, snapshot: LedgerSnapshot) -> Estimate:
    """Estimate a plan's cost from the mean seconds of past batches, without running anything."""
    counts = Counter(batch.table for batch in plan.batches)
    counts.update(plan.left_out)
    return cost_of(counts, snapshot)


def cost_of(batches: Mapping[str, int], snapshot: LedgerSnapshot) -> Estimate:
    """Estimate the cost of a number of batches by table, from the mean duration of earlier batches."""
    tables = {}
    for name, count in batches.items():
        mean = snapshot.of(name).seconds_per_batch
        tables[name] = TableCost(count, None if mean is None and count else (mean or 0.0) * count)
    return Estimate(tables)
