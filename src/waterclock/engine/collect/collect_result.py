"""The result of collecting a batch: rows of a source, not written yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waterclock.connectors.interface import Collected
    from waterclock.engine.run_context import RunContext


RECOMPUTED, RELEASED = "recomputed_from", "released"
COPIED = frozenset({RECOMPUTED, RELEASED})
"""Entries of a batch's source notes that name the slice from which its rows and all other notes were copied."""


def do_nothing_after(_: RunContext) -> None:
    """Leave the source unchanged."""


@dataclass(frozen=True, slots=True)
class CollectResult:
    """Rows of a source, with the notes for each label's manifest and the action after they are committed.

    `aside`: the quarantined rows of labels that are made again from kept rows, in their original form.
    """

    collected: Collected
    source: Mapping[datetime, Mapping[str, Any]]
    after: Callable[[RunContext], None] = do_nothing_after
    aside: DataFrame | None = None
