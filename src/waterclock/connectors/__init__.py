"""The systems that data is collected from and delivered to, each behind the interface of `interface`."""

from __future__ import annotations

from waterclock.connectors.interface import (
    TIMELABEL,
    ArrivalCollector,
    Collected,
    Collector,
    Connector,
    Delivered,
    Deliverer,
    Delivery,
    Item,
    Listing,
    Outcome,
    Report,
    Setting,
    SnapshotCollector,
    WindowCollector,
    WindowRequest,
)
from waterclock.connectors.registry import capabilities, connector

__all__ = [
    "TIMELABEL",
    "ArrivalCollector",
    "Collected",
    "Collector",
    "Connector",
    "Delivered",
    "Deliverer",
    "Delivery",
    "Item",
    "Listing",
    "Outcome",
    "Report",
    "Setting",
    "SnapshotCollector",
    "WindowCollector",
    "WindowRequest",
    "capabilities",
    "connector",
]
