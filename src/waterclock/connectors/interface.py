"""What a connector offers, so that the engine can collect from its system; `delivering` has what destinations offer.

A connector is one module-level object that satisfies `Connector`, named by an entry point of the group
`waterclock.connectors`. It imports nothing heavy; its collectors and deliverers may. The public conformance suite
`waterclock.testing.connectors` says in tests what is said here in words.

Times: every instant is an aware datetime in UTC. A column without a zone is read in `zone`, a repeated hour as its
first pass. Errors are `WaterclockError`s that name the unit; `transient` where trying again can help.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from waterclock.batches.links import LinkFacts
from waterclock.batches.records import Pin
from waterclock.connectors.delivering import Deliverer
from waterclock.errors import WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.declarations import Columns, Unit, Value
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Setting:
    """What a connection is opened with.

    `options` are the connection's, every secret already resolved; relative paths are below `folder`, the project's.
    `archive` is the storage's folder for originals: a connection keeps its own below `archive/<name>`.
    The options of a `Unit` that is passed to a collector or deliverer hold no secrets any more either.
    """

    name: str
    options: Mapping[str, Value] = field(repr=False)  # a traceback that shows its values shows no secret
    folder: Path
    archive: Path


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """Where a project is: the URL of its ledger, its storage, and the folder of its files where that is known.

    `connections`: how it reaches other systems, by its own project file.
    """

    ledger: str
    storage: str
    root: Path | None = None
    connections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Positions:
    """A range of a log, by part: from a position on, to one before which it ends: `{"0": (120, 180)}`.

    `of` names the log itself, so that another one under the same name is known. Positions are numbers or texts that
    JSON keeps, of which the connector alone knows the order; they count no rows. A part that brings nothing is listed
    too, from and to the same position. `gone`: what of the parts the source had lost when the range was taken, and
    somebody said that the collect goes on without.
    """

    of: str
    parts: Mapping[str, tuple[Any, Any]]
    gone: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as it is kept."""
        gone = {"gone": {part: list(span) for part, span in self.gone.items()}} if self.gone else {}
        return {"of": self.of, "parts": {part: list(span) for part, span in self.parts.items()}, **gone}

    @staticmethod
    def of_dict(kept: Mapping[str, Any]) -> Positions:
        """Return what was kept."""
        parts, gone = (
            {part: (low, high) for part, (low, high) in kept.get(name, {}).items()} for name in ("parts", "gone")
        )
        return Positions(str(kept["of"]), parts, gone)


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that arrived, complete. Manifests list items by `name`, which never changes while `path` may.

    `stamp` is its arrival; it may lie after now, which the engine caps. `is_archived`: it was moved out of the way; an
    item that a manifest lists and that is not archived was left behind by a crash, and is to be archived again.
    `positions`: the item is a range of a log. `changed`: the last change of a file, as it was listed.
    """

    name: str
    stamp: datetime
    size: int
    path: str
    is_archived: bool = False
    positions: Positions | None = None
    changed: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Report:
    """Something that is left alone, and said. `problem` is a short fixed phrase, `detail` speaks to people."""

    path: str
    problem: str
    detail: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The complete items of a unit, those already archived too, oldest first; and what is left alone."""

    items: tuple[Item, ...]
    reports: tuple[Report, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """Which windows are read by which column. `windows` ascend; those of a LOOKBACK are among them.

    `slack`: how long after a window's end rows of it may still land in a source that keeps rows by arrival (the
    cadence's DELAY plus LOOKBACK). A source that is asked by data time does not need it. `done`: the starts of windows
    that the table holds already and that are read once more: what another batch was given of them does not serve.
    """

    time_column: str
    windows: Sequence[Window]
    slack: timedelta = timedelta(0)
    done: frozenset[datetime] = frozenset()


@dataclass(frozen=True, slots=True)
class Mark:
    """What a look at a source noted, as JSON: of all windows that were looked at, and of one of them.

    It is kept with the batch that looked, and given back as it was: only the connector knows what it means.
    """

    of_all: Any
    of_window: Any = None


@dataclass(frozen=True, slots=True)
class LookRequest:
    """Asks which of some windows changed. `windows` ascend; `marks` are by window start, from the look before.

    A window without a mark was not looked at before: whether it changed is not asked, what is there now is noted.
    `change_column` is that of CHANGED BY, None for a source that tells of itself; `slack` as in `WindowRequest`.
    """

    time_column: str
    change_column: str | None
    windows: Sequence[Window]
    marks: Mapping[datetime, Mark] = field(default_factory=dict)
    slack: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Looked:
    """Which windows changed since their marks, each with a few words why, and what to note, as in `Mark`.

    What is not there at the look may be missed by no later one: a look says too much rather than too little.
    """

    changed: Mapping[datetime, str]
    of_all: Any
    of_window: Mapping[datetime, Any] = field(default_factory=dict)


def _nothing() -> Mapping[str, int]:
    return {}


def nothing_held() -> None:
    """Close a reading that holds nothing open."""


@dataclass(frozen=True, slots=True)
class Collected:
    """Rows read from a source, not yet evaluated.

    `frame` has the columns that were asked for and, but for a snapshot, the STRING column `timelabel`. `set_aside`
    gives counts of rows that belong to no window; it may wait for the one action on `frame`, so call it after that.
    `left_out` are columns of the source that a closed list does not name. `source` goes into the manifest. `is_empty`
    says that there are surely no rows: nothing waits for an action then, for there is none. `close` ends what the
    reading holds open at the source; it is called whatever became of the frame, and may be called again.
    `seen` are the columns that the source had, taken or not, with their Spark types (STRING where it says none);
    `seen_by_label` those of each label, where the source keeps old columns with old rows. `may_lack`: the rows are
    objects, none of which needs all fields: a column of the table that no row of a batch has is NULL. `notes`: what the
    user of a run should know of how the source was read; each is shown once in a run. `require_unchanged` is called
    after the one action and before the commit: it raises where what was read is not what was listed. `values`: by
    column, in lower case, the SQL of the value that its text has; of columns whose other values are set aside.
    """

    frame: DataFrame
    set_aside: Callable[[], Mapping[str, int]] = _nothing
    left_out: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    is_empty: bool = False
    close: Callable[[], None] = nothing_held
    seen: Mapping[str, str] = field(default_factory=dict)
    seen_by_label: Mapping[datetime, Mapping[str, str]] = field(default_factory=dict)
    may_lack: bool = False
    notes: tuple[str, ...] = ()
    require_unchanged: Callable[[], None] = nothing_held
    values: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Collector(Protocol):
    """What every source offers; the three ways of batching are separate, as a source may offer some of them."""

    def clock(self, unit: Unit) -> datetime | None:
        """The source's clock: a window may be read once it is at or past the end. None where a source has no clock."""
        ...

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Names and Spark types of the columns the source holds now, without Spark; None where it cannot say."""
        ...

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Say in our words what an error met while a frame of this collector was evaluated means; None: not ours."""
        ...


@runtime_checkable
class TextSource(Collector, Protocol):
    """A source of texts, which options of a unit say how to read."""

    def value_of_text(self, unit: Unit, text: str, type_text: str, zone: str) -> str:
        """Return the SQL of what a text (SQL) means as a type, NULL where it means nothing."""
        ...


@runtime_checkable
class Awaited(Collector, Protocol):
    """A source that can say of a window that all of its rows are there (AWAIT)."""

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Tell whether the sign of a window is there now. `zone` is the table's. Asked once a window and look."""
        ...


@runtime_checkable
class ItemReader(Collector, Protocol):
    """A source whose rows come as items, each of which belongs to one label of a table."""

    def read_items(
        self, spark: SparkSession, unit: Unit, items: Mapping[datetime, Sequence[Item]], columns: Columns, zone: str
    ) -> Collected:
        """Read items by the label (window start) that takes them, all labels in one frame and, mostly, one scan."""
        ...

    def archive(self, unit: Unit, items: Sequence[Item]) -> tuple[Report, ...]:
        """Move what was committed out of the way, idempotently and never over other content; report what stays.

        Of a log: what lies before the end of these items is not asked for again but to make a label once more.
        """
        ...


@runtime_checkable
class PositionCollector(ItemReader, Protocol):
    """A log, read by positions (BY ARRIVAL TIME): each label owns a range of it, where the one before ends.

    The range of a label is written down with its claim, before anything is read, and never changes: whoever tries the
    label again, or makes it again, reads the same. The source's own memory of how far it was read is not asked.
    """

    def next_range(self, unit: Unit, reached: Positions | None, first: datetime) -> Positions | None:
        """Return what came behind `reached`, up to the end of the log now; None where nothing came.

        Each part of `reached` goes on where it ends there; a part that is new is taken whole. Without `reached` the
        log is taken from its beginning, or as an option says, such as from `first` on: the window that begins it.
        Raises where what comes next is not there any more: nothing is passed over unless an option says so.
        """
        ...


@runtime_checkable
class ArrivalCollector(ItemReader, Protocol):
    """A source of items that arrive (BY ARRIVAL TIME)."""

    def arrivals(self, unit: Unit, taken: Collection[str] = ()) -> Listing:
        """Everything there is, whether taken before or not; but those that are named as `taken` and archived."""
        ...

    def find(self, unit: Unit, names: Collection[str]) -> tuple[Item, ...]:
        """Items by their names, wherever they lie now, archived or not; those that are gone are left out."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a source has written down and nobody collected yet: files, their bytes, and the first one's instant.

    `is_open`: something still writes there.
    """

    files: int = 0
    size: int = 0
    since: datetime | None = None
    is_open: bool = False


@runtime_checkable
class Sealing(ArrivalCollector, Protocol):
    """A source to which writers on this machine bring items without pause: it is its own clock, however idle it is."""

    def seal(self, unit: Unit, now: datetime) -> datetime:
        """Make items of what came before `now`; give the instant, at most `now`, before which nothing comes any more.

        Only the clock of a Sealing source changes something: what is asked for it is not asked by a mere look.
        """
        ...

    def waiting(self, unit: Unit) -> Waiting:
        """What lies there, without changing it. Cost: a listing."""
        ...


@runtime_checkable
class WindowCollector(Collector, Protocol):
    """A source whose rows carry a data time (BY DATA TIME)."""

    def read_windows(
        self, spark: SparkSession, unit: Unit, request: WindowRequest, columns: Columns, zone: str
    ) -> Collected:
        """Read the rows `s <= t < e` of each window, with its label; rows without a data time are set aside."""
        ...


@runtime_checkable
class Looking(Collector, Protocol):
    """A source by data time that can be looked at: it says which windows changed (LOOKBACK ... CHANGED).

    Nothing of this is BY CHANGES, the log of what became of each row: see `change_collector`.
    """

    def look(
        self, spark: Callable[[], SparkSession], unit: Unit, request: LookRequest, columns: Columns, zone: str
    ) -> Looked:
        """Look at the source as of one moment. It costs what changed, in bounded memory; the rows are not collected.

        A batch that reads a window after the look finds at least what the look saw. `spark` is called where needed.
        """
        ...


@runtime_checkable
class SnapshotCollector(Collector, Protocol):
    """A source that can say what it holds now."""

    def read_snapshot(
        self, spark: SparkSession, unit: Unit, columns: Columns, zone: str, *, now: datetime | None = None
    ) -> Collected:
        """Read all the source holds, as of one moment.

        A source that keeps what it held before gives what it held at `now`, so that a replay of the past does not see
        the future; others, and all without `now`, give what they hold.
        """
        ...


@dataclass(frozen=True, slots=True)
class EachRequest:
    """What a source is asked for, by window: rows of the columns `parameters`, each distinct one of which once.

    `table` is the one that collects: what was answered is kept for it. `done`: windows that it holds already: what was
    answered for them then serves again, and only what is new there is asked for. `is_anew`: all is asked for again.
    """

    table: str
    parameters: tuple[str, ...]
    rows: Mapping[Window, DataFrame]
    done: frozenset[datetime] = frozenset()
    is_anew: bool = False


@runtime_checkable
class EachCollector(Collector, Protocol):
    """A source that answers for each row of a table of ours (FOR EACH)."""

    def reach_each(self, unit: Unit) -> None:
        """See that it answers and lets us in, without asking for a row."""
        ...

    def read_each(
        self, spark: SparkSession, unit: Unit, request: EachRequest, columns: Columns, zone: str
    ) -> Collected:
        """Ask for each distinct row of each window, and return what was answered, with the window's label.

        Each row bears what it was asked for, in the columns `parameters`. A row with a NULL or an empty text there asks
        nothing. Answers are kept before they are read: who stops goes on where it stopped, and a window that is read
        again asks for nothing that it was answered before. The driver never holds all rows or answers.
        """
        ...


@runtime_checkable
class LinkedCollector(Collector, Protocol):
    """A table of another project, which says itself what may be read of it, and what that holds.

    Nothing of that project is ever written: neither its ledger nor its tables.
    """

    def facts(self, unit: Unit) -> LinkFacts:
        """How far the table has come; what keeps it from being read is told as a `problem`, not raised."""
        ...

    def contents(self, unit: Unit, spans: Sequence[tuple[datetime, datetime]]) -> Sequence[str]:
        """What each interval holds now: two texts are equal where the rows are."""
        ...

    def pins(self, unit: Unit, spans: Sequence[tuple[datetime, datetime]]) -> Sequence[Pin]:
        """Bind intervals to the versions and slices of one moment; each pin bears the unit's name."""
        ...

    def circle(self, unit: Unit, own: ProjectPlace, reading: frozenset[str]) -> str | None:
        """Name one of our tables `reading` the unit that the unit waits for in turn, as far as that can be told."""
        ...

    def read_pinned(
        self, spark: SparkSession, unit: Unit, pins: Sequence[tuple[Window, Pin]], columns: Columns, *, by_label: bool
    ) -> Collected:
        """Read what is pinned for each window: slices `by_label`, else the state at its end."""
        ...


class Connector(Protocol):
    """A kind of connection. `capabilities` says which of the protocols its collectors satisfy."""

    @property
    def capabilities(self) -> Capabilities:
        """What `check` knows of this kind, without opening anything."""
        ...

    def collector(self, setting: Setting) -> Collector:
        """Open a source; cheap, and without touching it."""
        ...

    def deliverer(self, setting: Setting) -> Deliverer:
        """Open a destination; cheap, and without touching it."""
        ...
