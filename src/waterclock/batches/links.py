"""What another project says of a table of its own that is collected here: as data, without its ledger behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from waterclock.batches.facts import InputFact, TableFacts
from waterclock.errors import WaterclockError
from waterclock.flow.choices import Mode
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.intervals import IntervalSet


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """How far a table of another project has come.

    `upstream` is its name here, `connection.schema.table`. `cadence` is None where that project has not run yet, or
    where there is a `problem` with it. `settled`: what may be read there. `past`: the facts of the table, which say why
    the rest may not. `circle`: a table of ours that it waits for in turn. `changed`: by label of ours, what it read
    there and what it would read now, where these differ. `sequence` rises with all that is written to that ledger.
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
    def begins(self) -> datetime | None:
        """The oldest instant of which it holds anything; None before its first batch."""
        return next((low for low, _ in self.past.covered), None)
