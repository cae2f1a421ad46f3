"""Defines the protocols of sources of open windows (CONTINUOUS): data before it is in items, and times of records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol, runtime_checkable

from waterclock.connectors.interface import Listing, SealingCollector
from waterclock.flow.declarations import Unit


@runtime_checkable
class UnsealedCollector(SealingCollector, Protocol):
    """A source to which writers on this machine add data that becomes items later."""

    def arrivals_so_far(self, unit: Unit, taken: Collection[str] = ()) -> Listing:
        """List all items, and the data that is not in items yet as the items that it becomes, with their names.

        `read_items` reads both. Nothing is stored or sealed.
        """
        ...


@runtime_checkable
class RecordTimes(Protocol):
    """A log that knows when its newest records were made."""

    def newest_times(self, unit: Unit, partitions: Collection[str]) -> Mapping[str, datetime]:
        """Return the time of the newest record of partitions, without those for which the source does not report it."""
        ...
