"""Maps the status of a batch to its display state, and ranks display states by severity."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from waterclock.planner.plan import Batch, Status


class State(StrEnum):
    """The display state of a grid cell or a listed batch, derived from its status; most severe first."""

    FAILED = "failed"
    HELD = "held"
    BLOCKED = "blocked"
    EXPIRED = "expired"
    RUNNING = "running"
    STALE = "stale"
    PAUSED = "paused"
    DUE = "due"
    BEHIND = "behind"
    WARNED = "warned"
    SKIPPED = "skipped"
    OK = "ok"
    STOOD_FOR = "stood for"
    NOT_NEEDED = "not needed"


QUIET = frozenset({State.OK, State.STOOD_FOR, State.NOT_NEEDED})
LOUDNESS = {state: rank for rank, state in enumerate(State)}

_STATES = {
    Status.READY: State.DUE,
    Status.WAITING: State.DUE,
    Status.PAUSED: State.PAUSED,
    Status.BLOCKED: State.BLOCKED,
    Status.STALE: State.STALE,
    Status.RUNNING: State.RUNNING,
    Status.DONE: State.OK,
    Status.FAILED: State.FAILED,
    Status.HELD: State.HELD,
    Status.SKIPPED: State.SKIPPED,
    Status.STOOD_FOR: State.STOOD_FOR,
    Status.NOT_NEEDED: State.NOT_NEEDED,
    Status.EXPIRED: State.EXPIRED,
    Status.BEHIND: State.BEHIND,
}


def state_of(status: Status) -> State:
    """Return the display state of a planner's status."""
    return _STATES[status]


def worst(states: Iterable[State]) -> State:
    """Return the most severe of some states."""
    return min(states, key=LOUDNESS.__getitem__)


def display_state_of(batch: Batch) -> State:
    """Return the display state of a planned batch. A batch that was done before and must run again is stale."""
    if batch.is_revision and batch.status in {Status.READY, Status.WAITING, Status.PAUSED}:
        return State.STALE
    return state_of(batch.status)
