"""Defines the planner's view of the past: an immutable snapshot of the ledger, without a database connection.

Intervals are of instants (aware UTC). A label is represented by the start of its window (an instant); its text form is
made only for display. `BEGINNING` and `FOREVER` replace missing bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from waterclock.batches.lease_times import is_pending
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of
from waterclock.timelabel.zone import local_text

if TYPE_CHECKING:
    from waterclock.batches.linked_projects import LinkFacts
    from waterclock.flow.declarations import Table

# The verb of a request to make a done label again only if its inputs have changed, even if no other batch needs it.
FOLLOW = "follow"
# The verb of a request to make a done label again in any case.
RECOMPUTE = "recompute"
# The verb of a request to make a label that is not done, even if no other batch needs it.
BACKFILL = "backfill"
# The verb of a request to make a window again that was closed: because rows arrived for it, or START moved back. It
# cannot be withdrawn, because the table of late rows does not contain these rows.
REOPEN = "reopen"
# The verb of a request to publish a held batch as it was sealed.
RELEASE = "release"
# The verb of a request to query the source of a MERGE or TEMPORAL table for late rows of a done label.
LOOK_AGAIN = "look again"
# The strength of each verb: of two requests for one batch, the stronger one counts.
STRENGTH = {BACKFILL: 0, FOLLOW: 0, RELEASE: 0, REOPEN: 1, RECOMPUTE: 1, LOOK_AGAIN: 2, "recollect": 3, "skip": 3}
# The prefix of a release request that replaced an earlier request, which follows it. The earlier one is in effect again
# once there is nothing to release.
_RELEASE_BEFORE = f"{RELEASE}, else "
# the maximum number of missing spans that a text lists
_MOST_LISTED = 3
BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
FOREVER = datetime(9999, 12, 31, tzinfo=UTC)


def verb_of_earlier_start(table: Table) -> str:
    """Return the verb that requests batches of a table again because START of an input moved back.

    For a table with CLOSE WHEN it is REOPEN, which keeps the ticks of closed windows. RECOMPUTE would add late rows to
    them.
    """
    return REOPEN if table.closes else RECOMPUTE


class BatchStatus(StrEnum):
    """The statuses of a batch that the ledger stores. The planner derives all others."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    HELD = "held"
    SKIPPED = "skipped"


# The error code of a batch that is HELD and not FAILED: it was sealed, and a rule prevents its publication.
HELD_BACK = "E755"


@dataclass(frozen=True, slots=True)
class InputFact:
    """The content that a batch read from one table (`recorded`), and the content that it would read now (`current`).

    A content is the sum over the slices in `[low, high)` of a hash of (label, digest): two equal contents are equal
    data. For a REPLACE table the interval is the one window whose state was read.
    """

    table: str
    low: datetime
    high: datetime
    recorded: str
    current: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A missing input of a batch: windows of a table in `[low, high)` that were not settled when the batch was made."""

    table: str
    low: datetime
    high: datetime

    def to_dict(self) -> dict[str, str]:
        """Return the missing input as a dictionary for JSON."""
        return {"table": self.table, "low": f"{self.low:%Y-%m-%dT%H:%M:%SZ}", "high": f"{self.high:%Y-%m-%dT%H:%M:%SZ}"}


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """A batch whose last claim failed, or was held by a rule. `due_again` is set if a retry is scheduled.

    `read`: the inputs of a held batch, in the order of its references.
    """

    status: BatchStatus
    claim: int
    attempts: int
    error: str
    is_transient: bool
    due_again: datetime | None = None
    read: tuple[InputFact, ...] = ()

    def is_due_again(self, clock: datetime) -> bool:
        """Return whether its scheduled retry is due, by the ledger's real clock."""
        return self.due_again is not None and not is_pending(self.due_again, clock)

    @property
    def is_outdated(self) -> bool:
        """Whether rows that a held batch read have changed since, so that it cannot be released."""
        return any(fact.recorded != fact.current for fact in self.read)


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """A claim that is not closed, with its runner and the end of its lease by the ledger's real clock.

    `left` is a text for users if the runner is known to be gone, so that the labels are not being made now.
    """

    claim: int
    labels: tuple[datetime, ...]
    runner: str
    lease_until: datetime
    left: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """A decision that no new batch is claimed until a resume, for one table or for all tables (`is_of_all`).

    `at` is its time by the real clock.
    """

    at: datetime
    who: str
    why: str
    is_of_all: bool = False

    def words(self, zone: str) -> str:
        """Return a text that states who paused, since when (in the given zone) and why."""
        what = "all is paused" if self.is_of_all else "paused"
        return f"{what} by {self.who} since {local_text(self.at, zone)}: {self.why}"

    def to_dict(self) -> dict[str, str]:
        """Return the pause as a dictionary for JSON."""
        return {"since": f"{self.at:%Y-%m-%dT%H:%M:%SZ}", "by": self.who, "why": self.why}


CONDITION, BY_HAND, AT_LAST, LATE_ROWS = "condition", "by hand", "partial", "late rows"
"""The reasons why a window is closed at its tick: its condition was TRUE, a user closed it, PARTIAL AFTER ended the
wait, or late rows reopened it up to that tick.
"""
UNCHECKED = "not checked"
"""The reason of an open window whose condition could not be evaluated at the last check."""


@dataclass(frozen=True, slots=True)
class Closing:
    """Whether and why a window is closed (CLOSE WHEN). `tick` is when it was closed, None while it is open.

    `looked` is the newest boundary at which the condition was not TRUE, and `asked` is the hash of that condition.
    `reason` is why the window is closed, or UNCHECKED. `behind` lists, as far as known, the data that the condition
    waited for when it was checked. `who` checked or closed the window, at the instant `at` of the ledger's clock; `why`
    is the reason given for closing by hand, or the code of the error of the last check. `first` is the original tick,
    before late rows reopened the window up to `tick`.
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
        """The tick at which the window was first closed. It ascends from window to window, even after a reopening."""
        return self.first or self.tick

    @classmethod
    def of_dict(cls, parts: Mapping[str, str | None]) -> Closing:
        """Build a closing from the dictionary that `to_dict` returned."""
        tick, looked, at, first = (
            datetime.fromisoformat(it) if (it := parts.get(name)) else None for name in _INSTANTS
        )
        texts = {name: parts.get(name) or "" for name in ("behind", "who", "why")}
        return cls(tick, looked, parts.get("reason"), at=at, first=first, **texts)

    def to_dict(self) -> dict[str, str | None]:
        """Return the closing as a dictionary for JSON."""
        values = {name: getattr(self, name) for name in _INSTANTS}
        instants = {name: None if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in values.items()}
        texts = {"reason": self.reason, "behind": self.behind, "who": self.who, "why": self.why}
        return {**instants, **{name: text or None for name, text in texts.items()}}


_INSTANTS = ("tick", "looked", "at", "first")


@dataclass(frozen=True, slots=True)
class ClosedSince:
    """The windows of a table before an instant `high`, and which of them were closed at an instant `at` or later.

    `first` is the oldest window that was ever checked, or None. `covered` has the windows that are done or skipped,
    `skipped` those that are skipped. `closed` has the windows that are closed, but neither done nor skipped. `later`
    maps windows that were closed after `at` to their closing ticks.
    """

    first: datetime | None
    covered: IntervalSet
    closed: frozenset[datetime]
    later: Mapping[datetime, datetime]
    skipped: frozenset[datetime] = frozenset()


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The ledger's facts about the past of one table, from which its batches are planned.

    `covered`: windows that are done, skipped or covered by a later snapshot. `suspects`: done batches with their
    inputs, if the recorded inputs may differ from the current ones, or if the batch depends on such batches (an upper
    bound; the planner compares). `troubles`: failed and held batches. `requested`: done batches that a user asked to
    make again, by `recompute` or `recollect`, or to give up, by `skip`. `following`: done batches that a user asked to
    follow their inputs: they are made again if their inputs have changed, even if no other batch needs them. `wanted`:
    labels that are not done and that a user asked for. `latest`: the tick that LATEST picked at a label's first run, by
    read table. `codes`: the number of done labels by fingerprint of their code. `period_starts`: for a requested or
    claimed snapshot label, the start of the period that it covers. `dropped_before`: the instant before which RETAIN
    has dropped data on disk; no window before it can be read. `partial`: the missing inputs of done batches. `paused`:
    the table's own pause. `closings`: the closing of each window that is not done, of done ones that may be made again,
    and of the last one before each gap (CLOSE WHEN). `closings_from`: from this tick on, `closings` has every closed
    window, for tables of open windows. `refused`: the error E405 if the current declaration would change the meaning of
    the table's batches, so that none is made.
    """

    start: datetime | None = None
    covered: IntervalSet = field(default_factory=IntervalSet)
    troubles: Mapping[datetime, FailedBatch] = field(default_factory=dict)
    open_claims: tuple[OpenClaim, ...] = ()
    requested: Mapping[datetime, str] = field(default_factory=dict)
    following: frozenset[datetime] = frozenset()
    wanted: frozenset[datetime] = frozenset()
    suspects: Mapping[datetime, tuple[InputFact, ...]] = field(default_factory=dict)
    latest: Mapping[datetime, Mapping[str, datetime]] = field(default_factory=dict)
    codes: Mapping[str, int] = field(default_factory=dict)
    seconds_per_batch: float | None = None
    period_starts: Mapping[datetime, datetime] = field(default_factory=dict)
    dropped_before: datetime | None = None
    partial: Mapping[datetime, tuple[Missing, ...]] = field(default_factory=dict)
    paused: Pause | None = None
    closings: Mapping[datetime, Closing] = field(default_factory=dict)
    closings_from: datetime | None = None
    refused: WaterclockError | None = None


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """The ledger's facts about all tables of a flow at one moment. `flow` is the fingerprint of the applied flow.

    `sequence` rises with every write to the ledger: two snapshots with the same sequence are equal. `paused` is the
    pause of all tables, including those that the ledger does not know yet. `links` maps tables that collect from other
    projects to the progress of their table there.
    """

    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    flow: str | None = None
    sequence: int = 0
    paused: Pause | None = None
    links: Mapping[str, LinkFacts] = field(default_factory=dict)

    def of(self, table: str) -> TableFacts:
        """Return the facts of `table`; empty ones for a table that the ledger does not know."""
        return self.tables.get(table, _NOTHING)

    def pause_of(self, table: str) -> Pause | None:
        """Return the pause that applies to `table`: its own, otherwise that of all tables."""
        return self.of(table).paused or self.paused

    def add_followers(self, requested: Mapping[str, Collection[datetime]]) -> LedgerSnapshot:
        """Return a copy as if users had requested that these done batches of REPLACE transforms follow their inputs.

        The result equals the snapshot that the ledger returns for the same request (`ledger.reads.snapshot`), if each
        of the batches is already a suspect.
        """
        tables = dict(self.tables)
        for name, labels in requested.items():
            facts = self.of(name)
            new = frozenset(labels) - facts.requested.keys() - facts.wanted
            tables[name] = replace(facts, following=facts.following | new)
        return replace(self, tables=tables)


_NOTHING = TableFacts()


@dataclass(frozen=True, slots=True)
class RevisionFact:
    """One revision of a batch, recorded `at`, that covers `[low, high)`.

    `weight` is the slice's summand in a content sum (`InputFact`), in two parts. `missing`: the inputs without which it
    was made.
    """

    claim: int
    at: datetime
    low: datetime
    high: datetime
    weight: tuple[int, int]
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The changes of one table since an instant.

    `covered`: windows done, skipped or covered by a later snapshot, as of now. `made`: by label, the revision that was
    current at that instant, and those recorded since, oldest first; no other label has changed. `read`: by label and
    claim, the inputs of revisions whose inputs may at some time since then have differed from the current content.
    """

    mode: Mode
    covered: IntervalSet = field(default_factory=IntervalSet)
    made: Mapping[datetime, tuple[RevisionFact, ...]] = field(default_factory=dict)
    read: Mapping[datetime, Mapping[int, tuple[InputFact, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class History:
    """The changes of tables since an instant of the ledger's clock."""

    since: datetime
    tables: Mapping[str, TableHistory]


def build_release_request(before: str | None) -> str:
    """Build the request to release a batch. It contains the batch's earlier request, such as to recollect it."""
    if before is None or is_release(before):
        return before or RELEASE
    return _RELEASE_BEFORE + before


def is_release(requested: str | None) -> bool:
    """Return whether a stored request is for the release of a batch."""
    return requested is not None and (requested == RELEASE or requested.startswith(_RELEASE_BEFORE))


def request_without_release(requested: str | None) -> str | None:
    """Return the earlier request that a release request contains, or None. Any other request is returned unchanged."""
    if not is_release(requested) or requested is None:
        return requested
    return requested.removeprefix(_RELEASE_BEFORE) if requested.startswith(_RELEASE_BEFORE) else None


def content_text(high: int, low: int) -> str:
    """Format a content sum (see `InputFact`) from its two numbers."""
    return f"{int(high):x}.{int(low):x}"


def content_sums(text: str) -> tuple[int, int]:
    """Parse the two numbers of a content sum from the text that `content_text` returned."""
    high, _, low = text.partition(".")
    return int(high, 16), int(low, 16)


def parse_missing_inputs(noted: Iterable[Mapping[str, str]]) -> tuple[Missing, ...]:
    """Build the missing inputs of a batch from the dictionaries that `Missing.to_dict` returned."""
    instant = datetime.fromisoformat
    return tuple(Missing(it["table"], instant(it["low"]), instant(it["high"])) for it in noted)


def describe_missing_inputs(missing: Collection[Missing]) -> str:
    """Describe the missing inputs of a batch in a text."""
    spans = [f"{it.table} {label_of(it.low)}..{label_of(it.high)}" for it in missing]
    more = f" and {len(spans) - _MOST_LISTED} more" if len(spans) > _MOST_LISTED else ""
    return f"without {', '.join(spans[:_MOST_LISTED])}{more}"
