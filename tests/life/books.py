"""The known state of a table's labels: their status, their rows and the rows that readers see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.life.part import FAILED, HELD
from tests.life.rows import Row, Rows, Slices, Version

TROUBLED = frozenset({HELD, FAILED})
Inputs = tuple[tuple[str, int, Rows | tuple[Version, ...]], ...]
YES, MAYBE, NO, GONE = 2, 1, 0, -1
"""Whether inputs are settled; MAYBE: rows are there, but a retry of the label failed; GONE: dropped."""


@dataclass(frozen=True)
class Made:
    """The rows of a label before and after the rules, with their inputs and the code version."""

    stay: Rows
    came: Rows
    inputs: Inputs = ()
    code: int = 0
    is_partial: bool = False


@dataclass(frozen=True)
class Option:
    """A possible outcome of a label: its status, the rows that readers see (None: none yet), and the held rows."""

    status: str | None
    shown: Made | None
    held: Made | None = None
    asked: str | None = None


@dataclass
class Book:
    """The known state of a table's labels. `late`: windows whose late rows a held batch read (`Oracle.released`)."""

    status: dict[int, str] = field(default_factory=dict)
    shown: dict[int, Made] = field(default_factory=dict)
    held: dict[int, Made] = field(default_factory=dict)
    asked: dict[int, str] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)

    def option(self, label: int) -> Option:
        return Option(self.status.get(label), self.shown.get(label), self.held.get(label), self.asked.get(label))

    def take(self, label: int, option: Option) -> None:
        put(self.status, label, option.status)
        put(self.shown, label, option.shown)
        put(self.held, label, option.held)
        put(self.asked, label, option.asked)

    def slices(self, first: int, last: int) -> Slices:
        return {label: made.stay for label, made in sorted(self.shown.items()) if first <= label <= last}


@dataclass(frozen=True)
class Closed:
    """The tick up to which a closed window reads, the one of its first closing, and whether PARTIAL AFTER closed it."""

    tick: int
    first: int
    is_partial: bool = False


@dataclass(frozen=True)
class Seen:
    """The state of a table in the engine: the status of each label, and its rows, by label or as a whole.

    `slices`: the sealed rows of each label, for MERGE and TEMPORAL tables and those with RETAIN. `ticks`: the ticks
    picked by LATEST, as the day that begins there, by label and table read. `closed`: where books were closed, by
    label.
    """

    status: Mapping[int, str]
    rows: Mapping[int, Rows] | tuple[Row, ...] | tuple[Version, ...]
    slices: Mapping[int, Rows] = field(default_factory=dict)
    ticks: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    closed: Mapping[int, Closed] = field(default_factory=dict)


class Unexpected(AssertionError):
    """The state of a table in the engine is not one that the rules allow."""


def put(into: dict[int, Any], label: int, value: Any) -> None:
    if value is None:
        into.pop(label, None)
    else:
        into[label] = value


def other_name(read: str, old: str, new: str) -> str:
    kind, name = read.split(" ")
    return f"{kind} {new if name == old else name}"


def describe_option(option: Option) -> str:
    if option.shown is None:
        return "no rows"
    of = option.shown
    read = "".join(f"\n    {read} {label or ''} {short(rows)}" for read, label, rows in of.inputs)
    return f"{short(of.stay)}, code {of.code}, made of{read}"


def short(rows: Iterable[object]) -> str:
    text = ", ".join(str(tuple(it)) if isinstance(it, tuple) else str(it) for it in rows)
    return f"[{text[:600]}]"
