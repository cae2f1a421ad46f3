"""Runs a project in this process, on a warm Spark session, as Waterclock's side of the benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from measure import Cost, now

import waterclock.engine.batch.retry  # noqa: F401 - otherwise the first batch would include the import
from waterclock.engine.run_listener import GroupReport, Listener
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.run_settings import RunSettings
from waterclock.engine.runner import Runner
from waterclock.engine.spark.session import Sessions, open_session
from waterclock.operations.project_opening import open_project
from waterclock.planner.plan import Group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Batch:
    """The cost of one claimed group of batches, and the duration of each step."""

    table: str
    cost: Cost
    steps: dict[str, float]


class Clocked(Listener):
    """Measures the cost of each group of batches. It is exact only if one thread runs batches."""

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
    """A project that is run step by step. The cost of its batches is in `clock.batches`."""

    def __init__(self, spark: SparkSession, folder: Path, threads: int, *, clock: type[Clocked] = Clocked) -> None:
        self.folder = folder
        self.clock = clock(spark)
        self._opened = open_workplace(
            open_project(folder, None),
            settings=RunSettings(threads=threads),
            listener=self.clock,
            sessions=Sessions.from_session(spark),
        )
        self.work = self._opened.__enter__()

    def run(self, start: datetime, until: datetime) -> None:
        """Run all batches that become due after `start` and up to `until`, inclusive."""
        apply_flow(self.work, start)
        outcome = Runner(self.work).run_until(start, until)
        if outcome.failed:
            sys.exit("\n".join(report.error.render() for report in outcome.failed if report.error))

    def table(self, name: str) -> str:
        """Return a table's folder."""
        return self.work.lake.folder(name)

    def close(self) -> None:
        self._opened.__exit__(None, None, None)


@contextmanager
def warm_spark(folder: Path, confs: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Open the Spark session for both sides as Waterclock does: with its confs, and two task threads."""
    spark = open_session("local[2]", folder / "spark", confs or {})
    try:
        yield spark
    finally:
        spark.stop()
