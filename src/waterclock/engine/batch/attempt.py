"""Defines one attempt at a group of batches: its Spark session, the time of each step, and its state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from waterclock.batches.records import Claim
from waterclock.engine.batch.adoption import AdoptedSlice
from waterclock.engine.batch.bound_inputs import BoundInputs
from waterclock.engine.batch.make import make
from waterclock.engine.batch.releasing import HeldBatch
from waterclock.engine.batch.results import MadeSlices
from waterclock.engine.reads.bucketed_inputs import drop_bucketed_tables
from waterclock.engine.reads.sizes import bytes_read, set_shuffle_partitions
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.spark.user_functions import register_functions
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.planner.plan import Group
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class CommittedGroup:
    """Summarizes a group's commit: the number of rows, the number of earlier windows made again, and warnings."""

    rows: int
    earlier: int
    warnings: tuple[str, ...]


@dataclass
class GroupAttempt:
    """One attempt at a group of batches that share a claim. It holds the state that all steps and `close_failed` need.

    `bound` are the inputs, once their versions are fixed. `held` is the held batch that a release commits. `adopted`
    are sealed slices that become current revisions, one for each label of the group. `made` are the rows to write.
    `spent` maps each step to its seconds.
    """

    work: RunContext
    table: Table
    group: Group
    now: datetime
    bound: BoundInputs | None = None
    held: HeldBatch | None = None
    adopted: tuple[AdoptedSlice, ...] = ()
    claim: Claim | None = None
    made: MadeSlices | None = None
    may_have_committed: bool = False
    done: CommittedGroup | None = None
    spent: dict[str, float] = field(default_factory=dict)
    begun: float = field(default_factory=time.perf_counter)

    @cached_property
    def spark(self) -> SparkSession:
        """The attempt's own Spark session. The functions that the table's rules call are registered in it."""
        session = self.work.sessions.own()
        self.work.record_spark_page()
        register_functions(session, self.work.root, self.work.flow, self.table.expressions, self.work.keys)
        return session

    @property
    def folder(self) -> str:
        """The folder of the table."""
        return self.work.folder(self.table)

    @property
    def where(self) -> str:
        """The table and the first label of the group, for messages."""
        return f"{self.table.name}@{label_of(self.group.batches[0].label)}"

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Report a step to the listener, and add its duration to `spent` under that name."""
        self.work.listener.step(self.group, name)
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - begun

    def make(self, bound: BoundInputs) -> MadeSlices:
        """Build the group's rows as DataFrames. Nothing is evaluated yet."""
        with self.step("make"):
            set_shuffle_partitions(self.spark, bytes_read(self.work.lake, self.work.flow, bound.pins.values()))
            self.made = make(self.work, self.spark, self.table, self.group, bound, self.now)
            return self.made

    def close(self) -> None:
        """Stop renewing the lease, and release the Spark session and the resources of the source."""
        if self.made is not None:
            self.made.notes.close()
        if self.claim is not None:
            self.work.end_lease(self.claim)
        if "spark" in self.__dict__:
            drop_bucketed_tables(self.spark)
            self.work.sessions.release(self.spark)

    def report(self, error: WaterclockError | None) -> GroupReport:
        """Build the report of the attempt, with its error if it failed."""
        return GroupReport(
            self.group,
            None if self.claim is None else self.claim.number,
            rows=self.done.rows if self.done else 0,
            earlier=self.done.earlier if self.done else 0,
            seconds=time.perf_counter() - self.begun,
            timings=self.spent,
            warnings=self.done.warnings if self.done else (),
            error=error,
        )
