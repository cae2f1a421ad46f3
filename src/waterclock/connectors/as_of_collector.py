"""Defines the protocol of connectors whose source keeps every earlier state. It extends `connectors.interface`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from waterclock.connectors.interface import Collected, Collector
from waterclock.flow.declarations import Columns, Unit
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@runtime_checkable
class AsOfCollector(Collector, Protocol):
    """A source that can return its rows as of any past instant."""

    def read_states(
        self,
        spark: SparkSession,
        unit: Unit,
        windows: Sequence[Window],
        columns: Columns,
        last: Mapping[str, Any] | None = None,
    ) -> Collected:
        """Read the rows as of the end of each window, each with the window's label.

        `last` is the `source` of the read of the newest label, if there is one: a source that no longer has what that
        read returned is refused, because it is an older copy.

        Repeatable: a later read of the same window returns the same rows. A change that the source records after a
        read of a window has a time at or after the end of that window.
        """
        ...
