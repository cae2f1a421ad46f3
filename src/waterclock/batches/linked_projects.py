"""Defines the facts about another project's table that is collected here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from waterclock.batches.ledger_snapshot import InputFact, TableFacts
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.intervals import IntervalSet


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """The progress of a table of another project, which a table here collects.

    `upstream` is its name here, `connection.schema.table`. `cadence` is None if that project has not run yet, or if it
    cannot be read (`problem`). `settled` has the windows that may be read there. `past` has the facts of the table,
    which explain why other windows may not be read. `circle` is a table of this project for which the upstream table
    waits in turn. `changed` maps labels of this project to their recorded and current input, if these differ.
    `is_dropped`: that project no longer declares the table. `sequence` rises with every write to that ledger.
    """

    upstream: str
    cadence: Cadence | None = None
    mode: Mode = Mode.APPEND
    settled: IntervalSet = field(default_factory=IntervalSet)
    past: TableFacts = field(default_factory=TableFacts)
    changed: Mapping[datetime, InputFact] = field(default_factory=dict)
    problem: WaterclockError | None = None
    circle: str | None = None
    is_dropped: bool = False
    sequence: int = -1

    @property
    def oldest_instant(self) -> datetime | None:
        """The oldest instant for which the upstream table has data; None before its first batch."""
        return next((low for low, _ in self.past.covered), None)
