"""Defines the protocols of destinations. The engine delivers each claim to a destination at most once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from waterclock.flow.conditions import Condition
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Mode
from waterclock.timelabel.label import TIMELABEL


class DeliveryOutcome(StrEnum):
    """The final outcome of a claim: delivered, killed, or skipped because the destination has a newer label (OLDER)."""

    DELIVERED = "delivered"
    KILLED = "killed"
    OLDER = "older"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A sealed slice of a PUBLISH that is to be written to its destination.

    - `label` is the window's start.
    - `mode`: for a partitioned table (`is_from_partitioned`) and for APPEND, the destination has a column `timelabel`,
      and a slice replaces rows of its own label and never those of a newer one. For other tables, REPLACE delivers a
      whole state, and MERGE the changes since the previous delivery or, with `is_whole`, a whole state too.
    - `deleted_column`: a BOOLEAN column that is TRUE in deleted rows; a MERGE deletes their keys.
    - `label_column`: a text column with the older label to which a row belongs, or NULL. Such rows become visible again
      for keys that this label no longer has.
    - `columns` are names with Spark types, without `timelabel` and these two columns. The Parquet `files` may have
      more columns.
    - `keys`, `order_by` and `per` are converted to the spelling of `columns`, however a declaration spells them.
    - `where`: only rows that match it are replaced (REPLACE WHERE).
    - `order_by`: columns by which the rows are sorted before they are sent. Rows with different values of `per` may be
      sent in any order.
    - `note` is stored with the delivery.
    - `appended_to`: the note of the rows of this label that are there already, and stay. Empty if they are replaced.
    - `places` maps the names of collected items to their locations, for a publish that copies the items themselves.
    """

    project: str
    publish: str
    claim: int
    label: datetime
    label_text: str
    mode: Mode
    is_from_partitioned: bool
    columns: tuple[tuple[str, str], ...]
    files: tuple[Path, ...]
    keys: tuple[str, ...] = ()
    deleted_column: str = ""
    label_column: str = ""
    is_whole: bool = False
    where: Condition | None = None
    order_by: tuple[str, ...] = ()
    per: tuple[str, ...] = ()
    note: str = ""
    appended_to: str = ""
    places: Callable[[Collection[str]], Mapping[str, str]] | None = None

    def __post_init__(self) -> None:
        spelling = {name.lower(): name for name, _ in self.columns}
        for attribute in ("keys", "order_by", "per"):
            object.__setattr__(
                self, attribute, tuple(spelling.get(name.lower(), name) for name in getattr(self, attribute))
            )

    @property
    def mode_words(self) -> str:
        """The mode as text for the record of deliveries, followed by `where` if the publish has a REPLACE WHERE."""
        return f"{self.mode.value} where" if self.where else self.mode.value

    @property
    def is_by_label(self) -> bool:
        """True if the destination has a column `timelabel` with the label of each row."""
        return self.is_from_partitioned or self.mode is Mode.APPEND

    @property
    def replaces_rows(self) -> bool:
        """True if the rows that are there for its label, or all, are deleted first."""
        return (self.is_by_label or self.mode is Mode.REPLACE) and not self.appended_to

    @property
    def column_names(self) -> list[str]:
        """The names of the destination's columns: those of `columns`, and `timelabel` if there is one."""
        return [name for name, _ in self.columns] + ([TIMELABEL] if self.is_by_label else [])


@dataclass(frozen=True, slots=True)
class Delivered:
    """The outcome of one label of a claim at its destination. The label of a killed claim is empty.

    `rows` is the number of rows written, `deleted` that of rows deleted. `is_repeat`: an earlier call recorded it.
    """

    claim: int
    outcome: DeliveryOutcome
    label_text: str
    rows: int
    deleted: int = 0
    note: str = ""
    is_repeat: bool = False

    def to_record(self) -> dict[str, Any]:
        """Return the outcome as values that can be stored as JSON, with `is_repeat` set to False."""
        return {**asdict(self), "outcome": self.outcome.value, "is_repeat": False}

    @classmethod
    def of_record(cls, stored: Mapping[str, Any]) -> Delivered:
        """Build the outcome from the values of `to_record`."""
        return cls(**{**stored, "outcome": DeliveryOutcome(stored["outcome"])})


@runtime_checkable
class Deliverer(Protocol):
    """A destination that records the outcome of each claim of each project.

    The first outcome that is recorded for a claim is final.
    """

    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        """Deliver the slices of one claim, in label order: all or none, and only once.

        Return one outcome for each delivery, or the outcomes that were recorded before. OLDER: the destination has a
        newer label of a regular table, so this one is skipped. KILLED: another process has recorded the claim as
        killed.
        """
        ...

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Record the claim as killed, unless it has an outcome. Return the recorded outcome."""
        ...

    def find(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered | None:
        """Return the outcome of a claim, or that of its newest label if it had several; None if it has none."""
        ...

    def last(self, unit: Unit, project: str, publish: str) -> Delivered | None:
        """Return the outcome of the newest delivered label; None before the first delivery."""
        ...

    def find_loss(self, unit: Unit, project: str, publish: str, claim: int) -> str | None:
        """Describe in a short text which part of a claim's delivery the destination has lost; None if it is intact.

        `claim` delivered the newest label. Only checks whose cost does not grow with the destination are made: of the
        record of deliveries, of the table or file, and of the newest label's rows.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWindowRows:
    """The open windows of a table for a destination.

    `shown` are the rows of open labels, each with the slice that they are from as its note. `kept` are labels whose
    rows stay as they are, because a batch has closed them and has not delivered them yet. All others are removed.
    `appended` maps labels to the rows that were added to those of an earlier slice, for a destination that shows it.
    """

    shown: tuple[Delivery, ...] = ()
    appended: Mapping[str, Delivery] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()


OpenWindowReader = Callable[[Collection[str]], OpenWindowRows]
"""Returns the open windows to show, given the labels that a destination shows now."""


@runtime_checkable
class OpenWindowDestination(Protocol):
    """A destination that can show open windows next to the delivered labels, each label once at every moment."""

    def show_open(self, unit: Unit, project: str, publish: str, read: OpenWindowReader) -> int:
        """Show the open windows that `read` returns, all or none; return the number of changed labels.

        `read` is called while no other runner delivers the publish. So of two runners, the later one shows newer rows.
        A label that was delivered is never changed.
        """
        ...


@runtime_checkable
class ReachableDestination(Protocol):
    """A destination whose record of deliveries is stored elsewhere, so that reading the record does not contact it."""

    def reach(self, unit: Unit) -> None:
        """Check that the destination responds and accepts the connection's credentials; raise an error if not."""
        ...


@runtime_checkable
class LabelTableDestination(Protocol):
    """A destination that stores each label in a separate table behind a view, so that a label can be dropped alone."""

    def labels(self, unit: Unit, project: str, publish: str) -> tuple[str, ...]:
        """Return the labels that have a table, in order."""
        ...

    def drop(self, unit: Unit, project: str, publish: str, labels: Sequence[str]) -> int:
        """Drop the tables of labels, all or none; return their number."""
        ...
