"""Binds the inputs of a group: pinned reads, reads from another project, and windows and ranges of its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.records import Slice
from waterclock.engine.collect.change_scans import ChangeScan, scan_past_windows
from waterclock.engine.collect.linked_projects import LinkedPin, pin_link
from waterclock.engine.collect.positions import Owned, ranges_of
from waterclock.engine.reads.pin import PinnedRead, pin
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Table
from waterclock.planner.plan import Group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class BoundInputs:
    """The bound inputs of a group: the pinned reads of each label, and the result of a lookback at its source.

    `linked`: the pinned reads of each window from another project. `owned`: the ranges of a log that each label owns
    once it is claimed.
    """

    pins: Mapping[datetime, tuple[PinnedRead, ...]]
    look: ChangeScan = field(default_factory=ChangeScan)
    linked: tuple[LinkedPin, ...] = ()
    owned: Owned = field(default_factory=dict)

    @property
    def again(self) -> tuple[Slice, ...]:
        """The done slices whose windows are read again."""
        return self.look.again


def pin_inputs(work: RunContext, table: Table, group: Group) -> BoundInputs:
    """Bind the reads of every label to slices, here and in another project."""
    pins = pin(work.ledger, work.lake, work.flow, group.batches)
    return BoundInputs(pins, linked=pin_link(work, table, group))


def bind_source(
    work: RunContext, table: Table, group: Group, bound: BoundInputs, spark: Callable[[], SparkSession]
) -> BoundInputs:
    """Add the ranges of a log that each label owns, and the done windows that a LOOKBACK reads again."""
    owned = ranges_of(work, table, group)
    return replace(bound, look=scan_past_windows(work, table, group, spark), owned=owned)
