"""Fixes the inputs that a group reads: pinned slices, versions of linked projects, changed past windows, log ranges."""

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
    """The inputs of a group, fixed before its batches run: pinned reads by label, and changed windows of its source.

    `scan`: the scan for past windows that changed at the source (LOOKBACK). `linked`: each window with the version of
    another project that it reads. `owned`: the ranges of a log that each label owns once it is claimed, or the items so
    far of open windows.
    """

    pins: Mapping[datetime, tuple[PinnedRead, ...]]
    scan: ChangeScan = field(default_factory=ChangeScan)
    linked: tuple[LinkedPin, ...] = ()
    owned: Owned = field(default_factory=dict)

    @property
    def again(self) -> tuple[Slice, ...]:
        """The slices of done windows that are collected again."""
        return self.scan.again


def pin_inputs(work: RunContext, table: Table, group: Group) -> BoundInputs:
    """Pin the versions that every label reads, of this project's tables and of linked projects."""
    pins = pin(work.ledger, work.lake, work.flow, group.batches)
    return BoundInputs(pins, linked=pin_link(work, table, group))


def bind_source(
    work: RunContext, table: Table, group: Group, bound: BoundInputs, spark: Callable[[], SparkSession]
) -> BoundInputs:
    """Return `bound` with the log ranges that each label owns, and the done windows to collect again (LOOKBACK)."""
    owned = ranges_of(work, table, group)
    return replace(bound, scan=scan_past_windows(work, table, group, spark), owned=owned)
