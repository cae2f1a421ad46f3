"""A shop's project of 29 tables in four layers with sixty days in its ledger, for tests in a browser.

Spark has run no batch; the ledger is written as a runner writes it. Two batches failed, and block others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from waterclock.batches.records import BatchResult, Claim, ClaimRequest
from waterclock.dpl.project import Project
from waterclock.dpl.statement_texts import statement_texts
from waterclock.engine.ledger_opening import ledger_url
from waterclock.ledger.ledger import Ledger
from waterclock.operations.project_opening import open_project
from waterclock.planner.plan import Group
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.storage.lake import Lake

NOW = datetime(2026, 11, 21, 1, 30, tzinfo=UTC)
FIRST = datetime(2026, 9, 22, tzinfo=UTC)
HEADER = """\
[project]
name = "shop"

[defaults]
start = "2026-09-22"

[env.dev]
storage = ".waterclock"
connections.erp = { path = "erp.sqlite" }
"""
_DAILY = ("inventory", "prices", "products", "returns", "sites", "weather")
COLLECTS = "".join(
    f"""COLLECT raw.{name} PARTITIONED (sku STRING KEY COMMENT 'which good', qty INT, at TIMESTAMP)
  FROM erp.{name} EVERY DAY BY DATA TIME at{" EXPECT count(*) > 100 AS few_rows ELSE WARN" if name == "weather" else ""}
  OWNER 'supply' COMMENT 'What the system of the shop says of {name}';
"""
    for name in _DAILY
)
DAILY = f"CREATE CONNECTION erp TYPE sqlite;\n\n{COLLECTS}\n"  # six tables, the default
FLOW = f"""\
{DAILY}COLLECT raw.orders PARTITIONED (sku STRING, qty INT, at TIMESTAMP) FROM erp.orders EVERY HOUR BY DATA TIME at;
COLLECT raw.sales_lines PARTITIONED (sku STRING, qty INT, at TIMESTAMP)
  FROM erp.sales_lines EVERY HOUR BY DATA TIME at;
COLLECT raw.suppliers PARTITIONED (sku STRING, qty INT, at TIMESTAMP) FROM erp.suppliers EVERY MONTH BY DATA TIME at;
"""
_MADE = {
    "core.calendar": ("raw.sites",),
    "core.orders_daily": ("raw.orders",),
    "core.price_history": ("raw.prices",),
    "core.returns_daily": ("raw.returns",),
    "core.sales_daily": ("raw.sales_lines", "raw.products"),
    "core.stock_daily": ("raw.inventory", "raw.products"),
    "core.weather_site": ("raw.weather", "raw.sites"),
    "core.sites_now": ("raw.sites",),
    "marts.stock_health": ("core.stock_daily", "core.orders_daily"),
    "marts.out_of_stock": ("marts.stock_health",),
    "marts.revenue": ("core.sales_daily", "core.price_history"),
    "marts.margin": ("marts.revenue",),
    "marts.returns_rate": ("core.returns_daily", "core.sales_daily"),
    "marts.site_day": ("core.sales_daily", "core.weather_site"),
    "marts.forecast_input": ("core.stock_daily", "core.sales_daily"),
    "marts.calendar_sales": ("core.calendar", "core.sales_daily"),
    "reports.board_kpis": ("marts.revenue", "marts.stock_health"),
    "reports.price_tags": ("core.price_history",),
    "reports.reorder_list": ("marts.out_of_stock", "marts.forecast_input"),
    "reports.site_report": ("marts.site_day", "marts.returns_rate"),
}
_PURPOSE = {"marts.stock_health": "How many days the stock of each good lasts at each site"}
SHORT = """\
E731 23 sites came, 24 were promised: MUC2 is missing
  inventory_20261109.csv
fix  when the file is whole, retry"""
FAILS: Mapping[tuple[str, datetime], str] = {
    ("raw.inventory", datetime(2026, 11, 9, tzinfo=UTC)): SHORT,
    ("raw.prices", datetime(2026, 11, 20, tzinfo=UTC)): "E731 price is no number: 12,50\n  prices_20261120.csv",
}


def statement(name: str, reads: tuple[str, ...]) -> str:
    """Return a transform that sums its inputs."""
    first, *others = reads
    joins = "".join(f" JOIN {other} USING (sku)" for other in others)
    comment = f" OWNER 'supply' COMMENT '{_PURPOSE[name]}'" if name in _PURPOSE else ""
    columns = "sku, count(*) AS lines"
    return f"TRANSFORM {name} PARTITIONED EVERY DAY{comment} AS SELECT {columns} FROM {first}{joins} GROUP BY sku;\n"


@dataclass
class Stocks:
    """The project in a folder, its ledger, and a clock that only a test advances."""

    folder: Path
    now: datetime = NOW
    fails: Mapping[tuple[str, datetime], str] = field(default_factory=lambda: dict(FAILS))

    @property
    def project(self) -> Project:
        return open_project(self.folder, None)

    def ledger(self) -> Ledger:
        return Ledger.open(ledger_url_of(self.project), clock=self._tick)

    def _tick(self) -> datetime:
        self.now += timedelta(milliseconds=250)
        return self.now

    def fill(
        self,
        *,
        until: datetime | None = None,
        stop: Callable[[Group], bool] = lambda _: False,
        run: str | None = None,
    ) -> None:
        """Make all due batches as a runner does, but without Spark; groups for which `stop` is true stay claimed."""
        project, at = self.project, until or self.now  # opened once: to check 29 tables takes a tenth of a second
        flow = project.flow
        with self.ledger() as ledger:
            texts = partial(statement_texts, flow, project.sources)
            ledger.declared.apply(flow, who="ann", now=at, runner="vm:1:a", statements=texts)
            planner = Planner(flow)
            left: set[str] = set()
            while True:
                ready = planner.ready(ledger.reads.snapshot(flow), at, PlanRequest(clock=ledger.now()))
                groups = [part for group in ready if group.table not in left for part in self._parts(group)]
                if not groups:
                    return
                for group in groups:
                    claim = take(ledger, project, group, at, run=run)
                    error = self.fails.get((group.table, group.batches[0].label))
                    if stop(group):
                        left.add(group.table)
                    elif error:
                        self.record_failed(ledger, claim, error)
                    else:
                        self.record(ledger, claim, group)

    def record(self, ledger: Ledger, claim: Claim, group: Group) -> None:
        record(ledger, claim, group)

    def record_failed(self, ledger: Ledger, claim: Claim, error: str) -> None:
        ledger.claims.record_failed(claim, error=error, is_transient=False)

    def _parts(self, group: Group) -> list[Group]:
        """Split a group into single labels if one of them is to fail."""
        is_meant = any((group.table, batch.label) in self.fails for batch in group.batches)
        return [Group(group.table, (batch,)) for batch in group.batches] if is_meant else [group]


def ledger_url_of(project: Project) -> str:
    Path(project.storage).mkdir(parents=True, exist_ok=True)
    return ledger_url(project)


def make(folder: Path, flow: str | None = None, header: str = HEADER) -> Stocks:
    """Write the project, without a run."""
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(header, encoding="utf-8")
    text = FLOW + "".join(statement(name, reads) for name, reads in _MADE.items()) if flow is None else flow
    (folder / "flows" / "shop.dpl").write_text(text, encoding="utf-8")
    return Stocks(folder)


def all_failed(folder: Path, count: int) -> Stocks:
    """Create a project of one table whose `count` newest batches failed."""
    first = NOW.replace(minute=30) - timedelta(minutes=15) * count
    flow = """CREATE CONNECTION erp TYPE sqlite;
COLLECT raw.a PARTITIONED (sku STRING, at TIMESTAMP) FROM erp.a EVERY 15 MINUTES BY DATA TIME at;
"""
    shop = make(folder, flow, HEADER.replace("2026-09-22", f"{first:%Y-%m-%dT%H:%MZ}"))
    declared = shop.project.flow
    with shop.ledger() as ledger:
        ledger.declared.apply(declared, who="ann", now=NOW, runner="vm:1:a")
        ready = Planner(declared).ready(
            ledger.reads.snapshot(declared), NOW, PlanRequest(clock=ledger.now(), cap=count, group_cap=count)
        )
        group = Group("raw.a", tuple(batch for each in ready for batch in each.batches)[:count])
        ledger.claims.record_failed(
            take(ledger, shop.project, group, NOW), error="E731 it is broken", is_transient=False
        )
    return shop


def take(ledger: Ledger, project: Project, group: Group, now: datetime, *, run: str | None = None) -> Claim:
    flow, inputs = project.flow, {}
    for batch in group.batches:
        pins = ledger.reads.pins([(read.read.table, read.low, read.high) for read in batch.reads])
        inputs[batch.label] = tuple(
            pin.input(str(read.read), read.scope.value) for pin, read in zip(pins, batch.reads, strict=True)
        )
    return ledger.claims.take(
        ClaimRequest(
            table=group.table,
            labels=tuple(batch.label for batch in group.batches),
            code=flow.tables[group.table].fingerprint,
            flow=flow.fingerprint,
            runner="vm:1:a",
            who="ann",
            now=now,
            lease_seconds=60,
            target_version=-1,
            inputs=inputs,
            run=run,
        )
    )


def record(ledger: Ledger, claim: Claim, group: Group, rows: int | None = None) -> None:
    results = []
    for batch in group.batches:
        number = (batch.label - FIRST) // timedelta(days=1)
        made = _rows(batch.label) if rows is None else rows
        warns = "weather" in group.table and number in {27, 40}
        results.append(
            BatchResult(
                label=batch.label,
                end=batch.window.end,
                version=number,
                rows=made,
                bytes=50_000,
                digest=f"{made}:{number}:7",
                slice_path=Lake("").slice_path(batch.label, claim.number),
                timings={"make": 9.5, "seal": 2.5},
                measures={"warnings": ["few_rows: 3 of 9000 rows"]} if warns else {},
            )
        )
    ledger.claims.record_done(claim, results)


def _rows(label: datetime) -> int:
    """Return how many rows a batch made: fewer on Sundays, and never the same twice in a row."""
    number = (label - FIRST) // timedelta(days=1)
    return (6_000 if label.weekday() == 6 else 9_000) + (number * 7919) % 2_000
