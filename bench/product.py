"""Our side of a benchmark: a project run in this process, on a Spark session that is warm already."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from measure import Cost, now

import waterclock.engine.batch.retry  # noqa: F401 - loaded by the first batch, which is not to be charged for it
from waterclock.engine.opening import apply_flow, open_workplace
from waterclock.engine.progress import GroupReport, Listener
from waterclock.engine.run_settings import RunSettings
from waterclock.engine.runner import Runner
from waterclock.engine.spark.session import Sessions, open_session
from waterclock.operations.opening import open_project
from waterclock.planner.plan import Group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Batch:
    """What one group of a table cost, and how long each of its steps took."""

    table: str
    cost: Cost
    steps: dict[str, float]


class Clocked(Listener):
    """Reads the clocks as a group begins and ends; right where one thread works."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._begun: dict[int, Cost] = {}
        self.batches: list[Batch] = []

    def on_group_start(self, group: Group) -> None:
        self._begun[id(group)] = now(self._spark)

    def on_group_finish(self, report: GroupReport) -> None:
        if report.error is not None:
            sys.exit(report.error.render())
        cost = now(self._spark) - self._begun.pop(id(report.group))
        self.batches.append(Batch(report.group.table, cost, dict(report.timings)))


class Project:
    """A project that is run step by step; what its batches cost is in `clock.batches`."""

    def __init__(self, spark: SparkSession, folder: Path, threads: int) -> None:
        self.folder = folder
        self.clock = Clocked(spark)
        self._opened = open_workplace(
            open_project(folder, None),
            settings=RunSettings(threads=threads),
            listener=self.clock,
            sessions=Sessions.of(spark),
        )
        self.work = self._opened.__enter__()

    def run(self, start: datetime, until: datetime) -> None:
        """Step through all that becomes due after `start`, up to and with `until`."""
        apply_flow(self.work, start)
        outcome = Runner(self.work).run_until(start, until)
        if outcome.failed:
            sys.exit("\n".join(report.error.render() for report in outcome.failed if report.error))

    def table(self, name: str) -> str:
        """A table's folder."""
        return self.work.lake.folder(name)

    def close(self) -> None:
        self._opened.__exit__(None, None, None)


@contextmanager
def warm_spark(folder: Path, confs: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """The session of both sides, as the product opens it: same confs, two threads of tasks."""
    spark = open_session("local[2]", folder / "spark", confs or {})
    try:
        yield spark
    finally:
        spark.stop()
