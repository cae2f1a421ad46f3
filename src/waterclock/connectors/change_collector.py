"""Defines the protocol of connectors whose source keeps a log of row changes. It extends `connectors.interface`.

The public conformance suite `waterclock.testing.changes` tests the behaviour that is documented here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from waterclock.batches.kept_logs import RetainedLog
from waterclock.connectors.interface import Collected, Collector
from waterclock.flow.declarations import Columns, Unit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A request for the changes of a unit's rows, from the end of the previous batch to the end of a window.

    `keys` are the columns that identify rows in the table. `since` is the `noted` state of the previous batch, None for
    the first. `name` returns a new name for a resource at the source, such as a replication slot. It records the name
    before it returns.
    """

    keys: tuple[str, ...]
    since: Mapping[str, Any] | None
    until: datetime
    name: Callable[[], str]


@dataclass(frozen=True, slots=True)
class ChangesRead:
    """The changes that were read. The frame also has the columns of `waterclock.flow.changes`.

    - `noted` is stored with the batch and passed to the next one; `name` is that of the resource at the source.
    - `whole_at`: set if the rows are the whole content of the source: the position in the log and the instant at which
      it was read. All other rows of the table were deleted.
    - `missing` are columns that some update omits because they did not change, `missing_of_deletes` those that some
      delete omits (`MISSING` lists them row by row).
    - `has_truncates`: a row without a key means that all rows were deleted.
    - `has_moved`: an update changed the key of a row. It is read as a delete of the old key and an insert with the next
      `SEQ`, which may omit the columns `missing`.
    - `said` are messages for the user.
    """

    collected: Collected
    noted: Mapping[str, Any]
    name: str
    whole_at: tuple[int, datetime] | None = None
    missing: tuple[str, ...] = ()
    missing_of_deletes: tuple[str, ...] = ()
    has_truncates: bool = False
    has_moved: bool = False
    said: tuple[str, ...] = ()


@runtime_checkable
class ChangeCollector(Collector, Protocol):
    """A source that keeps a log of the changes of each row (BY CHANGES).

    Reading consumes nothing: after a failed batch, the next read returns the same changes again, and newer ones. The
    source releases its log only when the read is confirmed, after the commit.
    """

    def read_changes(
        self, spark: SparkSession, unit: Unit, request: ChangeRequest, columns: Columns, zone: str
    ) -> ChangesRead:
        """Return the changes since the last batch in log order.

        For the first batch, read all rows and start to record changes.

        Raises an error if a change since then can no longer be read: no change is skipped.
        """
        ...

    def confirm(self, unit: Unit, noted: Mapping[str, Any]) -> None:
        """Confirm that changes are committed, so that the source can release its log of them.

        May be called again, and after the next read has started.
        """
        ...

    def let_go(self, unit: Unit, names: Sequence[str]) -> tuple[str, ...]:
        """Release the resources with these names at the source, and return the names that no longer have a resource.

        The resource of a running batch is not released. `unit` may no longer be declared.
        """
        ...


@runtime_checkable
class LogKeeper(ChangeCollector, Protocol):
    """A source of changes that can report how much log it retains for each collect."""

    def find_retained_logs(self, unit: Unit, names: Sequence[str]) -> Mapping[str, RetainedLog]:
        """Map each name to the log that the source retains for it. Cost: one query, whatever the number of names."""
        ...
