"""As of which tick, and as known when, is a query of several tables answered? (ARCHITECTURE 4, Ad hoc)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from waterclock.engine.workplace import Workplace
from waterclock.planner import Planner, read_tick

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class AsOf:
    """What somebody asks for: a tick in the words of `planner.read_tick`, and as known when; None: as known now."""

    tick: str
    known_at: datetime | None = None
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Moment:
    """As of which tick all tables are read, and what is known of them.

    `known_at`: only revisions recorded by then count; None: all. `is_rippling`: it was set because what the query reads
    was restated and not all has followed; it is the last instant before that.
    """

    tick: datetime
    known_at: datetime | None = None
    is_rippling: bool = False


def moment_of(work: Workplace, tables: Collection[str], asked: AsOf) -> Moment:
    """Find the moment at which tables are asked together; while a ripple runs, the one known before it.

    Cost: one snapshot of the ledger. Raises as `read_tick`, `Ticks.latest` and `Ticks.require`.
    """
    planner, now = Planner(work.flow), work.real_now()
    known = planner.ticks(work.ledger.snapshot(work.flow), now)
    said = read_tick(asked.tick, work.flow, asked.zone)
    tick = known.latest(tables) if said is None else said
    known.require(tables, tick)
    if asked.known_at is not None:
        return Moment(tick, asked.known_at)
    since = work.ledger.changed_since(known.disturbed(tables, tick))
    return Moment(tick) if since is None else Moment(tick, since - _INSTANT, is_rippling=True)
