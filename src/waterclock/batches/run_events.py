"""Defines the outcomes of attempts and runs, as reported to lineage tools. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from waterclock.batches.records import Input
from waterclock.timelabel.label import label_of


class LineageEventKind(StrEnum):
    """The kinds of `LineageEvent`: those of ledger events, and `left` for a label that its claim left unmade."""

    RUN_BEGAN = "run began"
    RUN_ENDED = "run ended"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    HELD = "held"
    LOST = "lost"
    LEFT = "left"


LEFT_OUT = "left out of lineage"
"""The kind of ledger event that records what a lineage server rejected, and why."""


@dataclass(frozen=True, slots=True)
class MadeRows:
    """The rows of a done batch. `location` is the table's folder in the storage; `measures` are its revision's."""

    end: datetime
    version: int
    rows: int
    bytes: int
    location: str
    measures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LineageEvent:
    """The start or outcome of an attempt at one label, or the start or end of a run.

    `number` is that of the ledger's event. `code` is the fingerprint of the table's code at its claim. `word` is the
    command of the run, or its outcome.
    """

    number: int
    at: datetime
    what: LineageEventKind
    who: str
    run: str | None
    table: str = ""
    label: datetime | None = None
    claim: int = 0
    code: str = ""
    error: str | None = None
    word: str = ""
    inputs: tuple[Input, ...] = ()
    made: MadeRows | None = None

    @property
    def place(self) -> str:
        """The batch or the run to which the event belongs, as a text for messages."""
        return f"run {self.run}" if self.label is None else f"{self.table}@{label_of(self.label)}"


@dataclass(frozen=True, slots=True)
class LineageEventPage:
    """A page of events, in order. The next page starts after the event number `up_to`. `is_all`: no page follows."""

    found: tuple[LineageEvent, ...]
    up_to: int
    is_all: bool


@dataclass(frozen=True, slots=True)
class OpenLineageState:
    """The progress of sending ledger events to the lineage server: the last `event` sent; `waiting` counts unsent ones.

    `error` is why the last attempt failed. `left_out` counts sent events that the server rejected although it accepted
    later ones. `refusal` is why it rejected the last of these.
    """

    waiting: int
    event: int = 0
    attempts: int = 0
    sent_at: datetime | None = None
    try_at: datetime | None = None
    error: str = ""
    left_out: int = 0
    refusal: str = ""
