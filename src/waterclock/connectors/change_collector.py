"""Defines the protocol of connectors whose source keeps a log of row changes. It extends `connectors.interface`.

The public conformance suite `waterclock.testing.changes` tests the behaviour that is documented here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from waterclock.batches.log_retention import RetainedLog
from waterclock.connectors.interface import Collected, Collector
from waterclock.flow.declarations import Columns, Unit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A request for the changes of a unit's rows, from the end of the previous batch to the end of a window.

    `keys` are the columns that identify rows in the table. `since` is `ChangesRead.noted` of the previous batch, None
    for the first batch. `name` records and returns a new name for a resource at the source, such as a replication slot.
    """

    keys: tuple[str, ...]
    since: Mapping[str, Any] | None
    until: datetime
    name: Callable[[], str]


@dataclass(frozen=True, slots=True)
class ChangesRead:
    """The changes that a batch read from a source. The frame also has the columns of `waterclock.flow.changes`.

    - `noted`: the state of the read, which the next batch receives as `ChangeRequest.since`.
    - `name`: the name of the resource at the source.
    - `whole_at`: the log position and the instant of a full read; None if only changes were read. Rows of the table
      that a full read does not contain were deleted.
    - `missing` are columns that some update omits because they did not change, `missing_of_deletes` those that some
      delete omits (`MISSING` lists them row by row).
    - `has_truncates`: some rows have no key. Each of them means that the source deleted all its rows.
    - `has_moved`: an update changed the key of a row. It is read as a delete of the old key and an insert with the next
      `SEQ`, which may omit the columns `missing`.
    - `messages` are reported to the user.
    """

    collected: Collected
    noted: Mapping[str, Any]
    name: str
    whole_at: tuple[int, datetime] | None = None
    missing: tuple[str, ...] = ()
    missing_of_deletes: tuple[str, ...] = ()
    has_truncates: bool = False
    has_moved: bool = False
    messages: tuple[str, ...] = ()


@runtime_checkable
class ChangeCollector(Collector, Protocol):
    """A source that keeps a log of the changes of each row (BY CHANGES).

    A read does not remove changes from the log: after a failed batch, the next read returns the same changes again, and
    newer ones. The source may remove them once `confirm` is called, after the commit.
    """

    def read_changes(
        self, spark: SparkSession, unit: Unit, request: ChangeRequest, columns: Columns, zone: str
    ) -> ChangesRead:
        """Return the changes since the last batch in log order.

        For the first batch, read all rows and start to record changes.

        Raises an error if a change since the last batch can no longer be read. No change is skipped.
        """
        ...

    def confirm(self, unit: Unit, noted: Mapping[str, Any]) -> None:
        """Confirm that the changes of a read are committed, so that the source can remove them from its log.

        May be called again, and after the next read has started.
        """
        ...

    def release_resources(self, unit: Unit, names: Sequence[str]) -> tuple[str, ...]:
        """Delete the resources with these names at the source, and return the names that no longer have a resource.

        The resource of a running batch is not deleted. The collect of `unit` may have been removed from the flow.
        """
        ...


@runtime_checkable
class LogRetentionReporter(ChangeCollector, Protocol):
    """A source of changes that can report how much log it retains for each collect."""

    def find_retained_logs(self, unit: Unit, names: Sequence[str]) -> Mapping[str, RetainedLog]:
        """Map each name to the log that the source retains for it. Cost: one query, whatever the number of names."""
        ...
