"""Builds and joins histories of versions: functions on DataFrames, usable without the rest of Waterclock.

The functions are imported on first access, so that the error codes can be read without PySpark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waterclock.temporal.bounds import OPEN
    from waterclock.temporal.compute import compute_temporal
    from waterclock.temporal.counts import Counts
    from waterclock.temporal.denorm import denorm_temporal, denorm_transactional
    from waterclock.temporal.query_refusals import refusal_of
    from waterclock.temporal.record_columns import valid_at
    from waterclock.temporal.sources import nulls_are_values, union_sources
    from waterclock.temporal.text import format_attribute
    from waterclock.temporal.version_statistics import FrameStatistics, measure_temporal

__all__ = [
    "OPEN",
    "Counts",
    "FrameStatistics",
    "compute_temporal",
    "denorm_temporal",
    "denorm_transactional",
    "format_attribute",
    "measure_temporal",
    "nulls_are_values",
    "refusal_of",
    "union_sources",
    "valid_at",
]

_HOMES = {
    "Counts": "counts",
    "denorm_temporal": "denorm",
    "denorm_transactional": "denorm",
    "compute_temporal": "compute",
    "FrameStatistics": "version_statistics",
    "measure_temporal": "version_statistics",
    "OPEN": "bounds",
    "valid_at": "record_columns",
    "nulls_are_values": "sources",
    "refusal_of": "query_refusals",
    "union_sources": "sources",
    "format_attribute": "text",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
