"""Fixtures with a project on disk whose batches are written into the ledger directly: no Spark, and fixed days."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.json_answers import check_answer
from waterclock.batches.records import BatchResult, ClaimRequest
from waterclock.cli.actions import backfill, make_before_query, restate, retry
from waterclock.cli.actions.init import start_project
from waterclock.cli.actions.run import RunOptions
from waterclock.cli.app import app
from waterclock.dpl.project import Project
from waterclock.engine.ledger_opening import ledger_url
from waterclock.json_models.version import JSON_VERSION
from waterclock.ledger.ledger import Ledger
from waterclock.operations.project_opening import open_project
from waterclock.planner.plan import Batch
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.label import label_of

TODAY = date(2024, 11, 20)
NOW = datetime(2024, 11, 20, 8, 0, tzinfo=UTC)


def day(number: int) -> datetime:
    """Return the label of a day of November 2024."""
    return datetime(2024, 11, number, tzinfo=UTC)


@dataclass
class Shop:
    """The project that `init` creates, and a ledger that tests write."""

    folder: Path
    project: Project
    ledger: Ledger

    @property
    def ledger_file(self) -> Path:
        return Path(ledger_url(self.project).removeprefix("sqlite:///"))

    def ask(self, *arguments: str, width: int = 100, **environment: str) -> Result:
        """Run a command on the project, with 20 November 2024 as the current day."""
        timed = ("--now", "2024-11-20T08:00") if arguments[0] in _TIMED and "--now" not in arguments else ()
        return ask(*arguments, "--project", str(self.folder), *timed, width=width, **environment)

    def json(self, *arguments: str) -> Any:
        """Run a command with --json, and return its output without the version."""
        told = json.loads(self.ask(*arguments, "--json").stdout)
        assert told.pop("version") == JSON_VERSION
        return told

    def done(
        self,
        table: str,
        *days: int,
        rows: int = 10,
        version: int | None = None,
        schema: Mapping[str, Any] | None = None,
        **measures: Any,
    ) -> None:
        """Record batches as done, or as made again, with inputs bound as the planner does."""
        for number in days:
            if self.ledger.reads.slices(table, day(number), day(number + 1)):
                self.ledger.decisions.request_restate(table, [day(number)], "recompute", who="ann")
            batch = self._batch(table, number)
            claim = self.ledger.claims.take(self._request(batch))
            end = self.project.flow.tables[table].cadence.next(day(number))
            result = BatchResult(
                label=day(number),
                end=end,
                version=number if version is None else version,
                rows=rows,
                bytes=1234,
                digest=f"{rows}:{number}:7",
                stands_from=batch.stands_from,
                slice_path=f"_stage/c={claim.number}",
                timings={"make": 0.5, "seal": 0.25},
                measures=measures or ({"warnings": ["few_orders: 3 of 10 rows"]} if number == 18 else {}),
                source=({"files": ["a.csv"]} if table.startswith("web.visits") else {})
                | ({"schema": schema} if schema else {}),
            )
            self.ledger.claims.record_done(claim, [result])

    def failed(self, table: str, *days: int, error: str = "E731 amount is no number") -> None:
        """Record batches as failed for good."""
        for number in days:
            claim = self.ledger.claims.take(self._request(self._batch(table, number)))
            self.ledger.claims.record_failed(claim, error=error, is_transient=False)

    def _batch(self, table: str, number: int) -> Batch:
        flow = self.project.flow
        asked = {table: frozenset({day(number)})}  # a REPLACE state without readers, or one that is made again
        plan = Planner(flow).plan(self.ledger.reads.snapshot(flow), NOW, PlanRequest(only=[table], force=asked))
        return next(batch for batch in plan.batches if batch.label == day(number))

    def _request(self, batch: Batch) -> ClaimRequest:
        flow = self.project.flow
        pins = self.ledger.reads.pins([(read.read.table, read.low, read.high) for read in batch.reads])
        inputs = tuple(pin.input(str(read.read), read.scope.value) for pin, read in zip(pins, batch.reads, strict=True))
        return ClaimRequest(
            table=batch.table,
            labels=(batch.label,),
            code=flow.tables[batch.table].fingerprint,
            flow=flow.fingerprint,
            runner="desk:1",
            who="ann",
            now=NOW,
            lease_seconds=60,
            target_version=-1,
            inputs={batch.label: inputs},
        )


_TIMED = {"plan", "status", "run", "backfill", "retry", "skip", "recompute", "recollect"}


def ask(*arguments: str, width: int = 100, **environment: str) -> Result:
    """Run a command line in this process; JSON output is validated against the command's models."""
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(width), "TERM": "dumb"} | environment)
    if "--json" in arguments and done.stdout.startswith("{"):
        check_answer(arguments[0], json.loads(done.stdout))
    return done


def cpu_seconds(*arguments: str) -> float:
    """Return the least CPU time of three fresh interpreters."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """Return a project that never ran and has no ledger."""
    folder = tmp_path / "shop"
    start_project(folder, TODAY)
    return folder


@pytest.fixture
def shop(fresh: Path) -> Iterator[Shop]:
    with _opened(fresh) as opened:
        yield opened


@pytest.fixture(scope="session")
def busy_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a ledger with done batches, one failed batch, and blocked batches that read it."""
    folder = tmp_path_factory.mktemp("busy") / "shop"
    start_project(folder, TODAY)
    with _opened(folder) as shop:
        shop.done("shop.customers", 19)
        shop.done("web.visits", 17, 18, 19)
        shop.done("shop.orders", 17, 18)
        shop.failed("shop.orders", 19)
        shop.done("sales.by_country", 17, 18)
        return shop.ledger_file


@pytest.fixture
def busy_shop(fresh: Path, busy_ledger: Path) -> Iterator[Shop]:
    """Yield a shop with done batches, one failed batch, and blocked batches that read it."""
    copy = fresh / busy_ledger.relative_to(busy_ledger.parents[1])
    copy.parent.mkdir()
    shutil.copyfile(busy_ledger, copy)
    with _opened(fresh) as opened:
        yield opened


@contextmanager
def _opened(folder: Path) -> Iterator[Shop]:
    project = open_project(folder, None)
    with Ledger.open(ledger_url(project)) as ledger:
        ledger.declared.apply(project.flow, who="ann", now=NOW, runner="desk:1")
        yield Shop(folder, project, ledger)


def texts(labels: Iterable[datetime]) -> list[str]:
    """Format labels as commands do."""
    return [label_of(label) for label in labels]


class Runs:
    """Replaces the execution of runs, and records the requested ones."""

    def __init__(self) -> None:
        self.asked: list[RunOptions] = []

    def __call__(self, _: object, asked: RunOptions) -> int:
        self.asked.append(asked)
        return 0


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    kept = Runs()
    for module in (backfill, make_before_query, restate, retry):
        monkeypatch.setattr(module, "run_and_report", kept)
    return kept


def ranges(asked: RunOptions) -> dict[str, str]:
    """Return the labels of a run by table, as users write them."""
    return {name: str(labels) for name, labels in asked.labels.items()}
