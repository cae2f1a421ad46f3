"""What a runner tells while it works: a listener's calls, thin enough for a terminal, a log or a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from waterclock.batches.facts import HELD_BACK
from waterclock.errors import WaterclockError
from waterclock.ledger.refusals import ClaimClosed, ClaimRefused
from waterclock.planner.plan import Group, Plan

_TAKEN_OVER = "E750"  # the claim was killed before its data came


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What came of one group: the rows of its labels, the seconds of each step, and the error if there was one.

    `earlier`: how many done labels a look back made again with it; their rows are among `rows`.
    `is_repeat`: that another runner has the batch was told before, at an earlier look.
    """

    group: Group
    claim: int | None
    rows: int = 0
    earlier: int = 0
    seconds: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: WaterclockError | None = None
    is_repeat: bool = False

    @property
    def is_held(self) -> bool:
        """Whether a rule holds it back: it is sealed, and waits for somebody."""
        return self.error is not None and self.error.code == HELD_BACK

    @property
    def is_anothers(self) -> bool:
        """Whether another runner makes the batch, or has made it: nothing has failed then."""
        error = self.error
        return isinstance(error, ClaimRefused | ClaimClosed) or (error is not None and error.code == _TAKEN_OVER)


class Listener(Protocol):
    """Hears what a runner does. Calls come from several threads, side by side; each returns at once."""

    def tick(self, now: datetime) -> None:
        """Hear that the runner works at `now`."""

    def planned(self, plan: Plan) -> None:
        """Hear of a new plan."""

    def started(self, group: Group) -> None:
        """Hear that a group was taken up."""

    def step(self, group: Group, name: str) -> None:
        """Hear that a group has come to the step `name`."""

    def finished(self, report: GroupReport) -> None:
        """Hear what came of a group."""

    def said(self, message: str) -> None:
        """Hear something a person should know: a file left alone, a takeover, a retry."""


class Silent:
    """A listener that hears nothing."""

    def tick(self, now: datetime) -> None:
        """Ignore it."""

    def planned(self, plan: Plan) -> None:
        """Ignore it."""

    def started(self, group: Group) -> None:
        """Ignore it."""

    def step(self, group: Group, name: str) -> None:
        """Ignore it."""

    def finished(self, report: GroupReport) -> None:
        """Ignore it."""

    def said(self, message: str) -> None:
        """Ignore it."""
