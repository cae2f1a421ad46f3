"""Defines the protocols of connectors as sources; `delivering` defines those of destinations.

A connector is one module-level object that satisfies `Connector`, named by an entry point of the group
`waterclock.connectors`. It imports nothing heavy; its collectors and deliverers may. The public conformance suite
`waterclock.testing.connectors` tests the behaviour that is documented here.

All instants are aware datetimes in UTC. A time without a zone is in `zone`; in a repeated hour it is the first one.
Errors are `WaterclockError`s that name the unit (a table, query, file pattern or topic). They are `transient` if a
retry can help.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from waterclock.batches.linked_projects import LinkFacts
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
    """The arguments with which a connection is opened.

    `options` are the options of the connection. Relative paths start at `folder`, the project's folder. `archive` is
    the storage's folder for original files, in which a connection uses the subfolder `archive/<name>`. Secrets are
    resolved, here and in the options of each `Unit` that is passed to a collector or deliverer.
    """

    name: str
    options: Mapping[str, Value] = field(repr=False)  # a traceback that shows its values shows no secret
    folder: Path
    archive: Path


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """The location of a project: the URL of its ledger, its storage, and `root`, the folder of its files, if known.

    `connections`: the connections to other systems that its project file declares.
    """

    ledger: str
    storage: str
    root: Path | None = None
    connections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Positions:
    """A range of positions in a log, such as a Kafka topic.

    `parts` maps each partition to its first position and its end (exclusive). For example: `{"0": (120, 180)}`. `of`
    identifies the log itself, so that another log of the same name is detected. Positions are numbers or texts that
    JSON can represent. Only the connector knows their order, and they do not count rows. A partition without new rows
    is listed with an empty range. `gone`: ranges that the source deleted unread, and that a user declared to skip.
    """

    of: str
    parts: Mapping[str, tuple[Any, Any]]
    gone: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the dict that is stored as JSON."""
        gone = {"gone": {part: list(span) for part, span in self.gone.items()}} if self.gone else {}
        return {"of": self.of, "parts": {part: list(span) for part, span in self.parts.items()}, **gone}

    @staticmethod
    def of_dict(kept: Mapping[str, Any]) -> Positions:
        """Build positions from the result of `to_dict`."""
        parts, gone = (
            {part: (low, high) for part, (low, high) in kept.get(name, {}).items()} for name in ("parts", "gone")
        )
        return Positions(str(kept["of"]), parts, gone)


@dataclass(frozen=True, slots=True)
class Item:
    """One complete item that arrived, such as a file or a range of a log.

    Manifests list it by `name`, which never changes; `path` may change. `stamp` is its arrival time. An item with a
    future stamp is not collected yet. `is_archived`: it was moved to the archive, which follows its commit. `positions`
    is the range of a log. `changed` is a file's modification time when it was listed, and `etag` identified its content
    in an object store. `read_earlier_sizes` finds the sizes that an archived item had before persons were erased from
    it. `bytes_read` is the size up to which an item of an open window was read, if it can grow at its end; else None.
    """

    name: str
    stamp: datetime
    size: int
    path: str
    is_archived: bool = False
    positions: Positions | None = None
    changed: datetime | None = field(default=None, compare=False)
    etag: str | None = field(default=None, compare=False)
    bytes_read: int | None = None
    read_earlier_sizes: Callable[[], frozenset[int]] = field(default=frozenset, compare=False, repr=False)

    @property
    def earlier_sizes(self) -> frozenset[int]:
        """The sizes that an archived item had before persons were erased from it. The first item reads them of all."""
        return self.read_earlier_sizes()


@dataclass(frozen=True, slots=True)
class Report:
    """A report about an item that is skipped. `problem` is a short fixed phrase, `detail` explains it to users."""

    path: str
    problem: str
    detail: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The complete items of a unit, oldest first and including archived ones, and reports about skipped ones."""

    items: tuple[Item, ...]
    reports: tuple[Report, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """The windows to read, and the column that assigns rows to them.

    `windows` ascend and include past windows of a LOOKBACK. `slack` is for sources that store rows by arrival: how long
    after the end of the last window its rows may still arrive (DELAY plus LOOKBACK). If an earlier read of these
    windows reached further, it extends to the newest `stamp` of the `items` in the `source` of that read.
    """

    time_column: str
    windows: Sequence[Window]
    slack: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Mark:
    """The state of a source at a change scan, as JSON: `of_all` is common to all windows, `of_window` is for one.

    The engine stores it and passes it to the next scan unchanged. Only the connector can interpret it.
    """

    of_all: Any
    of_window: Any = None


@dataclass(frozen=True, slots=True)
class ChangeScanRequest:
    """A request to find the windows whose rows changed since the last scan.

    `windows` ascend. `marks` are the states that the last scan recorded, by window start. A window without a mark was
    not scanned before: its current state is recorded, and no change is reported for it. `change_column` is the column
    of CHANGED BY, None for a source that detects changes itself; `slack` as in `WindowRequest`.
    """

    time_column: str
    change_column: str | None
    windows: Sequence[Window]
    marks: Mapping[datetime, Mark] = field(default_factory=dict)
    slack: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class ChangedWindows:
    """The windows that changed since the last scan, each with a short reason, and the new states to record (`Mark`).

    The next scan must find rows that arrived after this one. So a scan reports too many windows rather than too few.
    """

    changed: Mapping[datetime, str]
    of_all: Any
    of_window: Mapping[datetime, Any] = field(default_factory=dict)


def _return_no_counts() -> Mapping[str, int]:
    return {}


def do_nothing() -> None:
    """Do nothing. This is the default `close` of a read that keeps no resources open."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of reading a source: a Spark frame that is not evaluated yet, and facts about the source.

    - `frame` has the requested columns and, except for a snapshot, the STRING column `timelabel`.
    - `set_aside` counts the rows that belong to no window, by reason. It may wait for the action that evaluates
      `frame`, so call it after that action.
    - `left_out` are columns of the source that are not collected, because a column list without `*` does not name them.
    - `source` describes the source in the manifest.
    - `is_empty`: there are certainly no rows, so no action evaluates the frame.
    - `close` releases the resources that the read keeps open at the source. It is always called, even twice.
    - `source_columns` are all columns of the source, collected or not, with their Spark types (STRING if the source
      declares none). `source_columns_by_label` has those of each label, if labels can have different columns.
    - `may_miss_columns`: rows are objects in which any field may be missing, so a missing column is NULL and no error.
    - `notes` are messages to the user about the read. Each is shown once in a run.
    - `before_commit` is called after the frame is evaluated and before the commit. It raises an error if the data that
      was read differs from the listing, and discards data that was stored for a retry.
    - `values` maps a column, in lower case, to the SQL that parses its text. It has the columns whose invalid values
      are quarantined.
    """

    frame: DataFrame
    set_aside: Callable[[], Mapping[str, int]] = _return_no_counts
    left_out: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    is_empty: bool = False
    close: Callable[[], None] = do_nothing
    source_columns: Mapping[str, str] = field(default_factory=dict)
    source_columns_by_label: Mapping[datetime, Mapping[str, str]] = field(default_factory=dict)
    may_miss_columns: bool = False
    notes: tuple[str, ...] = ()
    before_commit: Callable[[], None] = do_nothing
    values: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Collector(Protocol):
    """The methods of every source. The other protocols are ways to collect, of which a source supports some."""

    def clock(self, unit: Unit) -> datetime | None:
        """Return the current time of the source's clock; None if it has no clock.

        A window may be read once this time has reached its end.
        """
        ...

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Return the names and Spark types of the source's current columns, without Spark; None if they are unknown."""
        ...

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Translate an error that Spark raised when it evaluated a collected frame; None for causes outside of it."""
        ...


@runtime_checkable
class TextSource(Collector, Protocol):
    """A source whose values are texts, such as CSV. The options of a unit determine how they are parsed."""

    def value_of_text(self, unit: Unit, text: str, type_text: str, zone: str) -> str:
        """Return an SQL expression that parses `text` (also SQL) as a type; it is NULL if the text does not parse."""
        ...


@runtime_checkable
class CompletenessCollector(Collector, Protocol):
    """A source that can report that all rows of a window have arrived (AWAIT)."""

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether the source shows now that the rows of a window are complete. `zone` is the zone of the table.

        Called once per window and poll.
        """
        ...


@runtime_checkable
class ItemReader(Collector, Protocol):
    """A source whose rows arrive in items, each of which belongs to one label of a table."""

    def read_items(
        self, spark: SparkSession, unit: Unit, items: Mapping[datetime, Sequence[Item]], columns: Columns, zone: str
    ) -> Collected:
        """Read items of several labels into one frame, usually in one scan. `items` is keyed by the window's start."""
        ...

    def archive(self, unit: Unit, items: Sequence[Item]) -> tuple[Report, ...]:
        """Move committed items to the archive, and return reports about items that remain.

        Idempotent, and never overwrites other content. For a log: positions before the end of these items are read
        again only if a label is made again.
        """
        ...


@runtime_checkable
class PositionCollector(ItemReader, Protocol):
    """A log, read by positions (BY ARRIVAL TIME). Each label has a range, which starts where the last one ends.

    The range of a label is recorded with its claim, before anything is read, and never changes. A retry of the label
    and a later revision read the same range. Positions that the source itself stores, such as those of a consumer
    group, are not used.
    """

    def next_range(self, unit: Unit, reached: Positions | None, first: datetime) -> Positions | None:
        """Return the range from `reached` to the current end of the log; None if the log has nothing new.

        Each partition continues at its end in `reached`; a new partition is read from its beginning. Without `reached`
        the range starts at the beginning of the log, or where an option declares, such as at `first`, the start of the
        first window. Raises an error if the next positions no longer exist, unless an option declares to skip them.
        """
        ...


@runtime_checkable
class ArrivalCollector(ItemReader, Protocol):
    """A source of items that arrive (BY ARRIVAL TIME)."""

    def arrivals(self, unit: Unit, taken: Collection[str] = ()) -> Listing:
        """List all items, collected before or not, except archived ones whose names are in `taken`."""
        ...

    def find(self, unit: Unit, names: Collection[str]) -> tuple[Item, ...]:
        """Return the items with these names, archived or not. Deleted items are omitted."""
        ...


@dataclass(frozen=True, slots=True)
class PendingData:
    """Data that is stored but not collected yet: the number of files, their bytes, and the arrival time of the oldest.

    `is_open`: a writer still appends to it.
    """

    files: int = 0
    size: int = 0
    since: datetime | None = None
    is_open: bool = False


@runtime_checkable
class SealingCollector(ArrivalCollector, Protocol):
    """A source to which writers on this machine add items continuously. Its clock advances even when it is idle."""

    def seal(self, unit: Unit, now: datetime) -> datetime:
        """Put all data received before `now` into items, such as closed files, which a collect can read.

        Return the instant, at most `now`, up to which no more data will arrive.
        Commands that only show state must not call this, as it stores data.
        """
        ...

    def find_pending(self, unit: Unit) -> PendingData:
        """Return the data that is stored and not collected yet, without side effects. Cost: a listing."""
        ...


@runtime_checkable
class WindowCollector(Collector, Protocol):
    """A source whose rows carry a data time (BY DATA TIME)."""

    def read_windows(
        self, spark: SparkSession, unit: Unit, request: WindowRequest, columns: Columns, zone: str
    ) -> Collected:
        """Read the rows of each window (`start <= time < end`) with its label, and count rows without a data time."""
        ...


@runtime_checkable
class ChangeScanner(Collector, Protocol):
    """A source with data times that can report which windows changed (LOOKBACK ... CHANGED).

    It is not used for BY CHANGES, which reads the log of changes of each row: see `connectors/change_collector.py`.
    """

    def scan_changes(
        self, spark: Callable[[], SparkSession], unit: Unit, request: ChangeScanRequest, columns: Columns, zone: str
    ) -> ChangedWindows:
        """Find the windows that changed, as of one moment, without collecting rows.

        A batch that reads a window after the scan finds at least the rows that the scan saw. `spark` is called only if
        Spark is needed. The time grows with the number of changes; the memory is bounded.
        """
        ...


@runtime_checkable
class SnapshotCollector(Collector, Protocol):
    """A source that can return its current content."""

    def read_snapshot(
        self, spark: SparkSession, unit: Unit, columns: Columns, zone: str, *, now: datetime | None = None
    ) -> Collected:
        """Read the whole content of the source, as of one moment.

        A source that stores earlier states returns its content at `now`, so that a replay of a past day reads the rows
        of that day. Other sources, and all sources without `now`, return their current content.
        """
        ...


@dataclass(frozen=True, slots=True)
class EachRequest:
    """The requests of a FOR EACH by window. Each distinct row of the columns `parameters` is requested once.

    `table` is the collecting table. Its responses are stored under the name `stored_as`, which stays the same if the
    table is renamed. `rows` has the rows of each window. For the windows `done`, which the table already contains,
    stored responses are used again and only new rows are requested. `is_anew`: all rows are requested again.
    """

    table: str
    stored_as: str
    parameters: tuple[str, ...]
    rows: Mapping[Window, DataFrame]
    done: frozenset[datetime] = frozenset()
    is_anew: bool = False


@runtime_checkable
class EachCollector(Collector, Protocol):
    """A source that returns a response for each row of a table of this project (FOR EACH)."""

    def reach_each(self, unit: Unit) -> None:
        """Check that the source responds and accepts the connection's credentials, without a request for a row."""
        ...

    def read_each(
        self, spark: SparkSession, unit: Unit, request: EachRequest, columns: Columns, zone: str
    ) -> Collected:
        """Request each distinct row of each window, and return the responses with the label of the window.

        Each returned row has the requested values in the columns `parameters`. A row with a NULL or an empty text
        there is not requested. Responses are stored before they are read. So an interrupted read continues where it
        stopped, and a window that is read again repeats no answered request. The driver never keeps all rows or
        responses in memory.
        """
        ...


@runtime_checkable
class LinkedCollector(Collector, Protocol):
    """A table of another project. That project declares which of its tables may be read, and reports their content.

    Nothing of that project is ever written: neither its ledger nor its tables.
    """

    def place(self) -> ProjectPlace:
        """Return the location of the other project, from files on this machine.

        Raises E833 or E838 if it cannot be found.
        """
        ...

    def facts(self, unit: Unit) -> LinkFacts:
        """Return the table's progress. If it cannot be read, `LinkFacts.problem` has the reason; no error is raised."""
        ...

    def contents(self, unit: Unit, spans: Sequence[tuple[datetime, datetime]]) -> Sequence[str]:
        """Return a text for each interval that identifies its current content: equal texts mean equal rows."""
        ...

    def pins(self, unit: Unit, spans: Sequence[tuple[datetime, datetime]]) -> Sequence[Pin]:
        """Return the versions and slices to read for each interval, as of one moment. Each pin has the unit's name."""
        ...

    def circle(self, unit: Unit, own: ProjectPlace, reading: frozenset[str]) -> str | None:
        """Return a table in `reading` (tables of this project) that the unit's table reads, directly or indirectly.

        None if no such table is known.
        """
        ...

    def read_pinned(
        self, spark: SparkSession, unit: Unit, pins: Sequence[tuple[Window, Pin]], columns: Columns, *, by_label: bool
    ) -> Collected:
        """Read the pinned data of each window: its slices if `by_label`, else the table's state at the window's end."""
        ...


class Connector(Protocol):
    """A connection type. `capabilities` declares which of the protocols above its collectors satisfy."""

    @property
    def capabilities(self) -> Capabilities:
        """The abilities and options of this type, which `check` needs. Reading them opens no connection."""
        ...

    def collector(self, setting: Setting) -> Collector:
        """Return a collector for a source, without connecting to it."""
        ...

    def deliverer(self, setting: Setting) -> Deliverer:
        """Return a deliverer for a destination, without connecting to it."""
        ...


_Collector_co = TypeVar("_Collector_co", bound=Collector, covariant=True)


@dataclass(frozen=True, slots=True)
class ConnectionType(Generic[_Collector_co]):
    """A connector that consists of its capabilities and two functions, which open sources and destinations."""

    capabilities: Capabilities
    collector: Callable[[Setting], _Collector_co]
    deliverer: Callable[[Setting], Deliverer]
