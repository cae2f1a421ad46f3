"""What the planner is told of the past: an immutable snapshot of the ledger, without a database behind it.

Intervals are of instants (aware UTC). A label is written as the start of its window (an instant); its text form is
made only for people. `BEGINNING` and `FOREVER` bound what has no bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.flow.choices import Mode
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of
from waterclock.timelabel.zone import local_text

if TYPE_CHECKING:
    from waterclock.batches.links import LinkFacts

# The verb of a request to make a done label again only where what it read has changed, though nobody needs it.
FOLLOW = "follow"
# The verb of a request to make a done label again, whatever has changed.
RECOMPUTE = "recompute"
# The verb of a request to make a label that is not done, though nobody needs it.
BACKFILL = "backfill"
# The verb of a request to make a batch again because rows came for it after its books were closed.
REOPEN = "reopen"
# The verb of a request to show a batch that a rule holds back, as it was sealed.
RELEASE = "release"
# The verb of a request to ask the source of a MERGE or TEMPORAL table for rows of a done label that came late.
LOOK_AGAIN = "look again"
# Of two requests for one batch the stronger one counts.
STRENGTH = {BACKFILL: 0, FOLLOW: 0, RELEASE: 0, REOPEN: 1, RECOMPUTE: 1, LOOK_AGAIN: 2, "recollect": 3, "skip": 3}
# what a request to release took the place of, written behind it: it counts again once nothing is released
_ELSE = f"{RELEASE}, else "
# so many of the spans that a batch lacks are named
_TOLD = 3
BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
FOREVER = datetime(9999, 12, 31, tzinfo=UTC)


class BatchStatus(StrEnum):
    """The stored states of a batch; all others are derived by the planner."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    HELD = "held"
    SKIPPED = "skipped"


# The code of the error with which a batch is HELD, and not FAILED: it was sealed, and a rule keeps it from being shown.
HELD_BACK = "E755"


@dataclass(frozen=True, slots=True)
class InputFact:
    """What a batch read of one table, and what would be read there now.

    `content` is the sum over the slices in `[low, high)` of a hash of (label, digest): two equal contents are equal
    data. For a REPLACE table the interval is the one window whose state was read.
    """

    table: str
    low: datetime
    high: datetime
    recorded: str
    current: str


@dataclass(frozen=True, slots=True)
class Missing:
    """What a batch was made without: windows of a table in `[low, high)` that were not settled then."""

    table: str
    low: datetime
    high: datetime

    def to_dict(self) -> dict[str, str]:
        """Return it for JSON."""
        return {"table": self.table, "low": f"{self.low:%Y-%m-%dT%H:%M:%SZ}", "high": f"{self.high:%Y-%m-%dT%H:%M:%SZ}"}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A batch whose last claim did not commit, or whose audit said no. `due_again` is set where a retry is timed.

    `is_outdated`: what a held batch had read has changed since, so that it cannot be released.
    """

    status: BatchStatus
    claim: int
    attempts: int
    error: str
    is_transient: bool
    due_again: datetime | None = None
    is_outdated: bool = False


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """A claim that is not closed: who holds it, and until when by the ledger's real clock.

    `left`: what is to be said of it where its runner is known to be gone, so that nobody makes its labels now.
    """

    claim: int
    labels: tuple[datetime, ...]
    runner: str
    lease_until: datetime
    left: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """A decision that no new batch is claimed, of one table or, where it `is_of_all`, of any; it stands until resumed.

    `at` is by the ledger's real clock.
    """

    at: datetime
    who: str
    why: str
    is_of_all: bool = False

    def words(self, zone: str) -> str:
        """Say who paused, since when, in a zone, and why."""
        what = "all is paused" if self.is_of_all else "paused"
        return f"{what} by {self.who} since {local_text(self.at, zone)}: {self.why}"

    def to_dict(self) -> dict[str, str]:
        """Return the pause for JSON."""
        return {"since": f"{self.at:%Y-%m-%dT%H:%M:%SZ}", "by": self.who, "why": self.why}


CONDITION, BY_HAND, AT_LAST, LATE_ROWS = "condition", "by hand", "partial", "late rows"
"""Why the books of a window are closed where they are: its condition held, somebody said so, nobody waits longer, or
rows that came late have opened it again up to there."""


@dataclass(frozen=True, slots=True)
class Closing:
    """What is known of the books of a window: the tick at which they were closed, None while they are open.

    `looked`: the newest boundary at which the condition did not hold, `asked` which condition that was. `reason`: why
    they are closed. `behind`: what the condition waited for when it was looked at, as far as that could be told. `who`
    looked or closed them, and `at` which instant of the ledger's clock; `why` somebody closed them by hand. `first`:
    where they were closed at first, before late rows opened them again up to `tick`.
    """

    tick: datetime | None = None
    looked: datetime | None = None
    reason: str | None = None
    behind: str = ""
    asked: str = ""
    who: str = ""
    why: str = ""
    at: datetime | None = None
    first: datetime | None = None

    @property
    def in_order(self) -> datetime | None:
        """Where they were closed at first: windows are closed in order, and late rows open them in none."""
        return self.first or self.tick

    @classmethod
    def of_dict(cls, said: Mapping[str, str | None]) -> Closing:
        """Read what `to_dict` wrote."""
        tick, looked, at, first = (datetime.fromisoformat(it) if (it := said.get(name)) else None for name in _INSTANTS)
        texts = {name: said.get(name) or "" for name in ("behind", "who", "why")}
        return cls(tick, looked, said.get("reason"), at=at, first=first, **texts)

    def to_dict(self) -> dict[str, str | None]:
        """Return it for JSON."""
        said = {name: getattr(self, name) for name in _INSTANTS}
        instants = {name: None if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in said.items()}
        texts = {"reason": self.reason, "behind": self.behind, "who": self.who, "why": self.why}
        return {**instants, **{name: text or None for name, text in texts.items()}}


_INSTANTS = ("tick", "looked", "at", "first")


@dataclass(frozen=True, slots=True)
class ClosedSince:
    """Which windows of a table were closed when: of those before `high`, the tick of each that was closed after `at`.

    `first`: the oldest window that was ever looked at, None where none was. `covered`: the windows that are done or
    given up, `skipped` the latter. `closed`: those that are neither, and closed.
    """

    first: datetime | None
    covered: IntervalSet
    closed: frozenset[datetime]
    later: Mapping[datetime, datetime]
    skipped: frozenset[datetime] = frozenset()


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table's past.

    `covered`: done, skipped or stood for. `suspects`: done batches whose recorded inputs may differ from what is
    there now, or that stand on such batches, with their inputs (an upper bound; the planner compares). `requested`:
    done batches that somebody asked to make again, by `recompute` or `recollect`, or to give up, by `skip`.
    `following`: done batches that somebody asked to follow what they read: they are made again where it has
    changed, though nobody needs them. `wanted`: labels that are not done, and that somebody asked to be made.
    `latest`: the tick that LATEST picked at a label's first run, by read table. `codes`: how many done labels ran
    under which fingerprint. `stands`: from when on a snapshot label that is requested or claimed stands.
    `dropped_before`: what RETAIN has dropped on disk; no window before it can be read. `partial`: what done batches
    were made without. `paused`: the table's own pause. `closings`: by label, of windows that are not done, of done ones
    that may be made again, and of the last before each gap, up to where their books go (CLOSE WHEN); `closings_from`:
    with all that were closed from that tick on, where another table holds the open windows. `refused`: E405 where its
    batches would mean something else by what is declared now, so that none is made.
    """

    start: datetime | None = None
    covered: IntervalSet = field(default_factory=IntervalSet)
    troubles: Mapping[datetime, Trouble] = field(default_factory=dict)
    open_claims: tuple[OpenClaim, ...] = ()
    requested: Mapping[datetime, str] = field(default_factory=dict)
    following: frozenset[datetime] = frozenset()
    wanted: frozenset[datetime] = frozenset()
    suspects: Mapping[datetime, tuple[InputFact, ...]] = field(default_factory=dict)
    latest: Mapping[datetime, Mapping[str, datetime]] = field(default_factory=dict)
    codes: Mapping[str, int] = field(default_factory=dict)
    seconds_per_batch: float | None = None
    stands: Mapping[datetime, datetime] = field(default_factory=dict)
    dropped_before: datetime | None = None
    partial: Mapping[datetime, tuple[Missing, ...]] = field(default_factory=dict)
    paused: Pause | None = None
    closings: Mapping[datetime, Closing] = field(default_factory=dict)
    closings_from: datetime | None = None
    refused: WaterclockError | None = None


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """The past of all tables of a flow at one moment; `flow` is the fingerprint of the applied flow.

    `sequence` rises with everything written to the ledger: a snapshot of the same sequence is the same. `paused`: the
    pause of all tables, those too that the ledger has not seen. `links`: of tables that collect from other projects,
    how far these have come.
    """

    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    flow: str | None = None
    sequence: int = 0
    paused: Pause | None = None
    links: Mapping[str, LinkFacts] = field(default_factory=dict)

    def of(self, table: str) -> TableFacts:
        """Return the facts of `table`; empty ones for a table the ledger has not seen."""
        return self.tables.get(table, _NOTHING)

    def pause_of(self, table: str) -> Pause | None:
        """Return what keeps batches of `table` from being claimed: its own pause, else that of all."""
        return self.of(table).paused or self.paused

    def with_following(self, asked: Mapping[str, Collection[datetime]]) -> LedgerSnapshot:
        """Return this past as if these done batches of REPLACE transforms, by table, had been asked to follow.

        The same as the ledger tells (`ledger.reads.snapshot`, `asking`) where each is among the suspects already.
        """
        tables = dict(self.tables)
        for name, labels in asked.items():
            facts = self.of(name)
            new = frozenset(labels) - facts.requested.keys() - facts.wanted
            tables[name] = replace(facts, following=facts.following | new)
        return replace(self, tables=tables)


_NOTHING = TableFacts()


@dataclass(frozen=True, slots=True)
class Made:
    """One revision of a batch: recorded `at`, it stands for `[low, high)`; `weight` is its part of a content."""

    claim: int
    at: datetime
    low: datetime
    high: datetime
    weight: tuple[int, int]


@dataclass(frozen=True, slots=True)
class TableHistory:
    """How one table has changed since an instant.

    `covered`: done, skipped or stood for, as of now. `made`: by label, in order, the revisions recorded since then,
    oldest first, after the one that held before; no other label has changed. `read`: by label and claim, what the
    revisions read that may have rested on something else than what lay there at some time since then.
    """

    mode: Mode
    covered: IntervalSet = field(default_factory=IntervalSet)
    made: Mapping[datetime, tuple[Made, ...]] = field(default_factory=dict)
    read: Mapping[datetime, Mapping[int, tuple[InputFact, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class History:
    """How tables have changed since an instant by the ledger's clock."""

    since: datetime
    tables: Mapping[str, TableHistory]


def releasing(before: str | None) -> str:
    """Write a request to release a batch, of which something else was asked before, such as to recollect it."""
    if before is None or is_release(before):
        return before or RELEASE
    return _ELSE + before


def is_release(requested: str | None) -> bool:
    """Tell whether a request, as the ledger keeps it, is one to release a batch."""
    return requested is not None and (requested == RELEASE or requested.startswith(_ELSE))


def before_release(requested: str | None) -> str | None:
    """Return what was asked of a batch before its release was asked for; what is no such request is as it was."""
    if not is_release(requested) or requested is None:
        return requested
    return requested.removeprefix(_ELSE) if requested.startswith(_ELSE) else None


def content_text(high: int, low: int) -> str:
    """Write the sums of what some slices weigh as `InputFact` has them."""
    return f"{int(high):x}.{int(low):x}"


def content_sums(text: str) -> tuple[int, int]:
    """Read what `content_text` wrote."""
    high, _, low = text.partition(".")
    return int(high, 16), int(low, 16)


def missing_of(noted: Iterable[Mapping[str, str]]) -> tuple[Missing, ...]:
    """Read what a batch lacks, as `Missing.to_dict` wrote it."""
    instant = datetime.fromisoformat
    return tuple(Missing(it["table"], instant(it["low"]), instant(it["high"])) for it in noted)


def lacking(missing: Collection[Missing]) -> str:
    """Say what a batch is made without."""
    said = [f"{it.table} {label_of(it.low)}..{label_of(it.high)}" for it in missing]
    more = f" and {len(said) - _TOLD} more" if len(said) > _TOLD else ""
    return f"without {', '.join(said[:_TOLD])}{more}"
