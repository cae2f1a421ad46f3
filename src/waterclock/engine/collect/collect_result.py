"""Defines the result of collecting a batch: rows of a source, not written yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waterclock.connectors.interface import Collected
    from waterclock.engine.run_context import RunContext


RECOMPUTED, RELEASED = "recomputed_from", "released"
COPIED = frozenset({RECOMPUTED, RELEASED})
"""Entries in a batch's source notes with the slice from which its rows and all other notes were copied."""


def keep_source(_: RunContext) -> None:
    """Do nothing: the default action after a commit."""


def items_of(notes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the names of the items, such as files, in the source notes of labels. Their keys are `items` or `read`."""
    for note in notes:
        for items in (note.get("items"), note.get("read")):
            for item in items if isinstance(items, list) else ():
                if isinstance(item, Mapping) and "name" in item:
                    yield str(item["name"])


@dataclass(frozen=True, slots=True)
class CollectResult:
    """The rows of a source, the source notes of each label for its manifest, and an action to run after the commit.

    `quarantined`: the quarantined rows of labels that are made again from stored rows, in their original form.
    """

    collected: Collected
    source: Mapping[datetime, Mapping[str, Any]]
    after: Callable[[RunContext], None] = keep_source
    quarantined: DataFrame | None = None
