"""What became of each attempt at a batch, and of runs, as a tool of lineage is told. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from waterclock.batches.records import Input
from waterclock.timelabel.label import label_of


class What(StrEnum):
    """What happened: the words of the ledger's events, and `left` for a label that a committed claim did not make."""

    RUN_BEGAN = "run began"
    RUN_ENDED = "run ended"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    HELD = "held"
    LOST = "lost"
    LEFT = "left"


LEFT_OUT = "left out of lineage"
"""The kind of the ledger's event that keeps what a server of lineage refused, and why."""


@dataclass(frozen=True, slots=True)
class MadeRows:
    """What a done batch came to. `location` is the table's folder in the storage; `measures` as with its revision."""

    end: datetime
    version: int
    rows: int
    bytes: int
    location: str
    measures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened. `number` is its event's; of a run's begin and end there is no table, label or claim.

    `code` is the fingerprint of the table's code at its claim; `word` the run's command, or how it ended.
    """

    number: int
    at: datetime
    what: What
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
        """The batch that it befell, or the run."""
        return f"run {self.run}" if self.label is None else f"{self.table}@{label_of(self.label)}"


@dataclass(frozen=True, slots=True)
class Happened:
    """Some of what happened, in order; `up_to`: the event behind which the next begin. `is_all`: there are no more."""

    found: tuple[Happening, ...]
    up_to: int
    is_all: bool


@dataclass(frozen=True, slots=True)
class OpenLineageState:
    """How far what happened was sent: `waiting` events are not yet. `error`: why the last try was lost.

    `left_out` events of what was sent were refused, though those behind them were taken; `refusal`: why the last was.
    """

    waiting: int
    event: int = 0
    attempts: int = 0
    sent_at: datetime | None = None
    try_at: datetime | None = None
    error: str = ""
    left_out: int = 0
    refusal: str = ""
