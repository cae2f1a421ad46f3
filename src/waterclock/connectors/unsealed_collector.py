"""Defines the protocol of sources whose data can be read before it is in items, for open windows (CONTINUOUS)."""

from __future__ import annotations

from collections.abc import Collection
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
