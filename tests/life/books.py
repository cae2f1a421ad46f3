"""What is known of a table's labels: what each came to, what was made, and what is seen of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.life.part import FAILED, HELD
from tests.life.rows import Row, Rows, Slices, Version

TROUBLED = frozenset({HELD, FAILED})
Inputs = tuple[tuple[str, int, Rows | tuple[Version, ...]], ...]
YES, MAYBE, NO, GONE = 2, 1, 0, -1
"""Whether what is read is settled; MAYBE: rows are there, but the label was tried again in vain; GONE: dropped."""


@dataclass(frozen=True)
class Made:
    """Rows of a label, as they came and as they stayed, what it was made of, and by which code."""

    stay: Rows
    came: Rows
    inputs: Inputs = ()
    code: int = 0
    is_partial: bool = False


@dataclass(frozen=True)
class Option:
    """What a label may have come to: its status, the rows that readers see (None: none yet), and what is held."""

    status: str | None
    shown: Made | None
    held: Made | None = None
    asked: str | None = None


@dataclass
class Book:
    """What is known of a table's labels. `late`: windows whose late rows a held batch has read, `Oracle.released`."""

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
    """Up to which tick a closed window reads, the one at which it was closed first, and whether PARTIAL AFTER did."""

    tick: int
    first: int
    is_partial: bool = False


@dataclass(frozen=True)
class Seen:
    """What the engine shows of a table: the status of each label, and its rows, by label or as a whole.

    `slices`: of MERGE and TEMPORAL tables, and those with RETAIN, what is sealed for each label. `ticks`: by label and
    table read the day that begins at the tick which LATEST picked. `closed`: by label where its books were closed.
    """

    status: Mapping[int, str]
    rows: Mapping[int, Rows] | tuple[Row, ...] | tuple[Version, ...]
    slices: Mapping[int, Rows] = field(default_factory=dict)
    ticks: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    closed: Mapping[int, Closed] = field(default_factory=dict)


class Unexpected(AssertionError):
    """What is seen of a table is nothing that the rules allow."""


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
