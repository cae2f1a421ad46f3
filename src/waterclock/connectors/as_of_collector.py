"""Defines the protocol of connectors whose source keeps every earlier state. It extends `connectors.interface`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from waterclock.connectors.interface import Collected, Collector
from waterclock.flow.declarations import Columns, Unit
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@runtime_checkable
class AsOfCollector(Collector, Protocol):
    """A source that can return its rows as of any past instant."""

    def read_states(self, spark: SparkSession, unit: Unit, windows: Sequence[Window], columns: Columns) -> Collected:
        """Read the rows as of the end of each window, each with the window's label.

        Repeatable: a later read of the same window returns the same rows. A change that the source records after a
        read of a window has a time at or after the end of that window.
        """
        ...
