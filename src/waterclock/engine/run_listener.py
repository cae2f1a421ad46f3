"""Defines the events that a runner sends to a listener, such as a terminal, a log or a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from waterclock.batches.ledger_snapshot import HELD_BACK
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger_errors import ClaimClosed, ClaimRefused
from waterclock.planner.plan import Group, Plan

_TAKEN_OVER = "E750"  # the claim was killed before its data was committed


@dataclass(frozen=True, slots=True)
class GroupReport:
    """The result of one group of batches that share a claim: its rows, the seconds of each step, and the error if any.

    `earlier`: the number of done labels that LOOKBACK made again with it; their rows are included in `rows`.
    `is_repeat`: an earlier poll already reported that another runner has the batch.
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
        """Whether a rule holds the batch: it is sealed, and waits for a user's decision."""
        return self.error is not None and self.error.code == HELD_BACK

    @property
    def is_of_other_runner(self) -> bool:
        """Whether another runner makes the batch, or has made it: nothing has failed then."""
        error = self.error
        return isinstance(error, ClaimRefused | ClaimClosed) or (error is not None and error.code == _TAKEN_OVER)


class Listener:
    """Receives the events of a runner, from several threads concurrently. Each method must return at once.

    The default ignores all events.
    """

    def tick(self, now: datetime) -> None:
        """Receive the instant `now` for which the runner plans and runs batches."""

    def on_plan(self, plan: Plan) -> None:
        """Receive a new plan."""

    def on_group_start(self, group: Group) -> None:
        """Receive a group that starts."""

    def step(self, group: Group, name: str) -> None:
        """Receive the `name` of the step that a group starts."""

    def on_group_finish(self, report: GroupReport) -> None:
        """Receive the result of a group."""

    def on_message(self, message: str) -> None:
        """Receive a message for the user, such as an ignored file, a takeover or a retry."""
