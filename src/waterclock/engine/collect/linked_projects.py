"""Reads the rows of tables that collect from another project. The versions are pinned before the claim is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from waterclock.batches.records import Pin
from waterclock.engine.collect.collect_result import CollectResult
from waterclock.engine.linked_projects import open_linked_source
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Table
from waterclock.flow.linked_projects import upstream_of
from waterclock.planner.linked_projects import is_by_label
from waterclock.planner.plan import Group
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LinkedPin = tuple[Window, Pin]


def pin_link(work: RunContext, table: Table, group: Group) -> tuple[LinkedPin, ...]:
    """Return each window of a group with the version of the other project to read for it.

    Empty if the table collects from no other project, or the group is made from stored rows. Raises E833 to E838 if the
    other project has no such version.
    """
    if upstream_of(table) is None or group.is_made_of_kept:
        return ()
    return tuple(work.links.pins(table, [batch.window for batch in group.batches]))


def collect_linked_table(
    work: RunContext, spark: SparkSession, table: Table, pins: Sequence[LinkedPin]
) -> CollectResult:
    """Build a lazy DataFrame of the pinned versions of another project's table."""
    unit, collector = open_linked_source(work.connections, table)
    collected = collector.read_pinned(spark, unit, pins, table.columns, by_label=is_by_label(table))
    noted = {window.start: _pin_to_dict(pin) for window, pin in pins}
    return CollectResult(collected, noted)


def _pin_to_dict(pin: Pin) -> dict[str, object]:
    """Return the upstream table and version, and the claims of the slices, as source notes for the manifest."""
    return {"upstream": pin.table, "version": pin.version, "claims": sorted({piece.claim for piece in pin.slices})}
