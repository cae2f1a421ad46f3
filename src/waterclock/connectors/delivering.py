"""What a destination offers, so that the engine can deliver to it, each claim once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from waterclock.flow.choices import Mode
from waterclock.flow.conditions import Condition
from waterclock.flow.declarations import Unit


class Outcome(StrEnum):
    """What became of a claim at a destination. The first outcome of a claim stands for ever."""

    DELIVERED = "delivered"
    KILLED = "killed"
    OLDER = "older"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One label's sealed publish slice on its way.

    `label` is the window's start. `is_from_partitioned`, and APPEND: the destination has a column `timelabel`, a slice
    replaces its own label's rows and never a newer label's. Else REPLACE brings a whole state, MERGE what changed
    since the delivery before, or, with `is_whole`, the whole state too. Rows whose BOOLEAN column `deleted_column` is
    TRUE are rows that went: a MERGE deletes their keys. Rows whose text column `label_column` is not NULL are of that
    older label: they come back for keys that this label holds no longer. `columns` are names with Spark types, without
    `timelabel` and these two, whatever else the Parquet `files` hold; `keys` are spelt as they are, however a
    declaration spells them. `where`: only rows of which it holds are replaced (REPLACE WHERE). `order_by`: columns by
    which the rows are sent one after the other, those of each value of `per` by themselves. `note` is kept beside the
    delivery. `places`: tells by their names where items lie that the rows were collected from, for what copies these.
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
    places: Callable[[Collection[str]], Mapping[str, str]] | None = None

    def __post_init__(self) -> None:
        spelt = {name.lower(): name for name, _ in self.columns}
        for said in ("keys", "order_by", "per"):
            object.__setattr__(self, said, tuple(spelt.get(name.lower(), name) for name in getattr(self, said)))

    @property
    def mode_words(self) -> str:
        """The mode as the record of deliveries has it."""
        return f"{self.mode.value} where" if self.where else self.mode.value

    @property
    def is_by_label(self) -> bool:
        """True where the destination keeps rows of many labels apart by its column `timelabel`."""
        return self.is_from_partitioned or self.mode is Mode.APPEND


@dataclass(frozen=True, slots=True)
class Delivered:
    """What stands at the destination for a label of a claim. `is_repeat`: it stood there before, nothing was done now.

    `rows` were brought, `deleted` were taken away. The label of a killed claim is empty.
    """

    claim: int
    outcome: Outcome
    label_text: str
    rows: int
    deleted: int = 0
    note: str = ""
    is_repeat: bool = False


@runtime_checkable
class Deliverer(Protocol):
    """A destination. Its record of deliveries, keyed by (project, claim), is the latch: data or kill, first wins."""

    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        """Deliver the slices of one claim, in label order: all of them or nothing, once.

        Gives one answer for each delivery, or what stands since before. OLDER: a newer label of a regular table is
        there, so this one is passed over. KILLED: somebody took the claim's place.
        """
        ...

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Take the claim's place by an empty record, unless it was delivered; say which of both stands."""
        ...

    def find(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered | None:
        """What stands under a claim: for its newest label, if it had several."""
        ...

    def last(self, unit: Unit, project: str, publish: str) -> Delivered | None:
        """The delivery of the newest label, None before the first."""
        ...

    def lost(self, unit: Unit, project: str, publish: str, claim: int) -> str | None:
        """What of a claim's delivery is not there any more, in a few words; None where it stands.

        Its record, and what shows at a cost that does not grow with the destination: the table, the file, the newest
        label's rows. The claim is that of the newest label.
        """
        ...


@runtime_checkable
class Reachable(Protocol):
    """A destination whose record of deliveries lies elsewhere, so that asking that says nothing of it."""

    def reach(self, unit: Unit) -> None:
        """Ask the destination itself whether it is there and lets us in; raises where it is not."""
        ...


@runtime_checkable
class PartKeeper(Protocol):
    """A destination that keeps each label in a table of its own behind a view, dropped as metadata alone."""

    def labels(self, unit: Unit, project: str, publish: str) -> tuple[str, ...]:
        """The labels that have a table, in order."""
        ...

    def drop(self, unit: Unit, project: str, publish: str, labels: Sequence[str]) -> int:
        """Drop the tables of labels, all or none; gives how many there were."""
        ...
