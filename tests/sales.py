"""A shop whose sales are measured and checked by rules, with sixty days in its ledger.

Spark has run no batch. Some rows of `raw.sales` are quarantined, two Sundays have warnings, and 20 November is held, so
that `marts.revenue` misses its deadline. `raw.returns` is silent since 17 November, and got a column on 1 October.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests import stocks
from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.batches.records import QUARANTINED, BatchResult, Claim
from waterclock.batches.schemas import SCHEMA
from waterclock.flow.measures import MEASURED
from waterclock.ledger.ledger import Ledger
from waterclock.planner.plan import Group
from waterclock.storage.lake import Lake

NOW = "2026-11-21T01:30Z"
HELD = datetime(2026, 11, 20, tzinfo=UTC)
SILENT = datetime(2026, 11, 17, tzinfo=UTC)
WARNED = frozenset({datetime(2026, 10, 25, tzinfo=UTC), datetime(2026, 11, 15, tzinfo=UTC)})
WIDER = datetime(2026, 10, 1, tzinfo=UTC)
SAID = "as_usual: the batch is not (sum(amount) BETWEEN usual(sum(amount), -4.5) AND usual(sum(amount), 4.5))"
FLOW = """\
CREATE CONNECTION erp TYPE sqlite;
COLLECT raw.sales PARTITIONED
  (id BIGINT NOT NULL ELSE DROP, amount DECIMAL(10, 2) ELSE QUARANTINE, at TIMESTAMP)
  FROM erp.sales EVERY DAY BY DATA TIME at
  EXPECT amount > 0 AS positive ELSE QUARANTINE AT MOST 20 PERCENT ELSE HOLD,
    count(*) >= 0.6 * last_good(count(*)) AS not_shrunk ELSE WARN,
    sum(amount) BETWEEN usual(sum(amount), -4.5) AND usual(sum(amount), 4.5) AS as_usual ELSE HOLD
  MEASURE PROFILE, avg(amount) AS mean, max(at) AS newest
  DEADLINE 2 HOURS;
COLLECT raw.returns PARTITIONED (id BIGINT, at TIMESTAMP) FROM erp.returns EVERY DAY BY DATA TIME at;
TRANSFORM marts.revenue PARTITIONED DEADLINE 1 HOUR AS SELECT sum(amount) AS revenue FROM raw.sales;
TRANSFORM marts.quiet PARTITIONED AS SELECT count(*) AS n FROM raw.returns;
"""


@dataclass
class Sales(stocks.Stocks):
    """The project in a folder."""

    def record(self, ledger: Ledger, claim: Claim, group: Group) -> None:
        ledger.claims.record_done(claim, [_result(claim, group.table, batch.window) for batch in group.batches])

    def record_failed(self, ledger: Ledger, claim: Claim, error: str) -> None:
        ledger.claims.record_failed(claim, error=error, is_transient=False, status=BatchStatus.HELD)

    def live(self, *, days: int = 60) -> None:
        """Make each day an hour after its end."""
        for day in range(1, days + 1):
            self.now = stocks.FIRST + timedelta(days=day, hours=1)
            self.fill(until=self.now)


def make(folder: Path, *, flow: str = FLOW) -> Sales:
    """Write the project, without a run."""
    stocks.make(folder, flow)
    return Sales(folder, fails={("raw.sales", HELD): f"E755 raw.sales is held: {SAID}"})


def _result(claim: Claim, table: str, window: Any) -> BatchResult:
    label = window.start
    number = (label - stocks.FIRST) // timedelta(days=1)
    rows = 0 if table in {"raw.returns", "marts.quiet"} and label >= SILENT else rows_of(label)
    return BatchResult(
        label=label,
        end=window.end,
        version=number,
        rows=rows,
        bytes=50_000,
        digest=f"{rows}:{number}:7",
        slice_path=Lake("").slice_path(label, claim.number),
        timings={"make": 9.5, "seal": 2.5},
        measures=_measures(label, rows, number) if table == "raw.sales" else {},
        source=_source(label) if table == "raw.returns" else {},
    )


def rows_of(label: datetime) -> int:
    """Return how many rows a batch of sales made: fewer at weekends."""
    number = (label - stocks.FIRST) // timedelta(days=1)
    return (300 if label.weekday() >= 5 else 900) + number * 37 % 50


def _measures(label: datetime, rows: int, number: int) -> Mapping[str, Any]:
    values = {
        "rows": (str(rows), "bigint"),
        "count(*)": (str(rows), "bigint"),
        "sum(amount)": (f"{rows * (10 + number % 3)}.50", "decimal(20,2)"),
        "mean": (f"{10 + number % 3}.000000", "decimal(14,6)"),
        "newest": (f"{label:%Y-%m-%d} 23:59:00", "timestamp"),
        "amount.nulls": (str(number % 4), "bigint"),
        "amount.distinct": ("120", "bigint"),
        "amount.min": ("0.50", "decimal(10,2)"),
        "amount.max": (None, "decimal(10,2)"),
    }
    aside, dropped = (2, 1) if number % 10 == 0 else (0, 0)
    shrunk = [f"not_shrunk: the batch is not (count(*) >= 0.6 * last_good(count(*))), where count(*) is {rows}"]
    taken = [f"positive: 2 of {rows + 3} rows violate (amount > 0), quarantined"]
    return {
        MEASURED: {name: {"value": value, "type": kind} for name, (value, kind) in values.items()},
        "warnings": [*(shrunk if label in WARNED else []), *(taken if aside else [])],
        "in": rows + aside + dropped,
        QUARANTINED: aside,
        "dropped": dropped,
        "broken": {"positive": 2, "id": 1} if aside else {},
        "first": {"positive": 2, "id": 1} if aside else {},
    }


def _source(label: datetime) -> Mapping[str, Any]:
    columns = {"id": "bigint", "at": "timestamp"} | ({"reason": "string"} if label >= WIDER else {})
    return {SCHEMA: {"source": columns, "table": columns}} if label in {stocks.FIRST, WIDER} else {}
