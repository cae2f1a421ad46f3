"""What a connector offers whose source keeps a log of what became of each row, beside `connectors.interface`.

The public conformance suite `waterclock.testing.changes` says in tests what is said here in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from waterclock.batches.kept_logs import Kept
from waterclock.connectors.interface import Collected, Collector
from waterclock.flow.declarations import Columns, Unit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """Asks for the changes of a unit's rows, from where the batch before came to, up to the end of a window.

    `keys` are the columns by which the table tells rows. `since` is what the batch before noted, None for the first.
    `name` draws the name of what the source has to keep from now on, and has written it down before it returns.
    """

    keys: tuple[str, ...]
    since: Mapping[str, Any] | None
    until: datetime
    name: Callable[[], str]


@dataclass(frozen=True, slots=True)
class ChangesRead:
    """Changes read. The frame has, beside the columns, those of `waterclock.flow.changes` for each row.

    `noted` is kept with the batch and given to the next one; `name` is what the source keeps. `whole_at`: the rows are
    all that there are, as of a place in the log and an instant, and what the table holds besides went. `missing` are
    columns that some change does not tell as they did not change, `missing_of_deletes` those that some delete does not
    tell (`MISSING` names them row by row); `has_truncates`: a row without a key says that all rows went. `has_moved`:
    some insert does not tell them whose row bore another key before, that of the delete one `SEQ` before it. `said`
    speaks to people.
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
    """A source that keeps a log of what became of each row (BY CHANGES).

    Nothing is consumed by reading: a batch that fails reads the same again, and more. The source lets go of what was
    read once that is confirmed, after the commit.
    """

    def read_changes(
        self, spark: SparkSession, unit: Unit, request: ChangeRequest, columns: Columns, zone: str
    ) -> ChangesRead:
        """Read all rows and begin to follow them, or what became of them since, in the order of the log.

        Raises where a change since then cannot be read any more: none is passed over.
        """
        ...

    def confirm(self, unit: Unit, noted: Mapping[str, Any]) -> None:
        """Let the source forget what was committed; it may be called again, and later than the next reading."""
        ...

    def let_go(self, unit: Unit, names: Sequence[str]) -> tuple[str, ...]:
        """Have the source keep nothing any more under names that were drawn; gives those that are gone.

        One by which a batch is reading now stays. `unit` need not be there any more.
        """
        ...


@runtime_checkable
class LogKeeper(ChangeCollector, Protocol):
    """A source of changes that can say how much of its log it keeps for whom."""

    def kept(self, unit: Unit, names: Sequence[str]) -> Mapping[str, Kept]:
        """Tell how what is kept under each name stands. Cost: one question, whatever the number of names."""
        ...
