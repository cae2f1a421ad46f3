"""A source and destination in memory that fulfils the conformance suites, except for one fault. Needs no Spark."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.systems import setting_of, unit_of
from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.interface import (
    ChangedWindows,
    ChangeScanRequest,
    Collected,
    Item,
    Listing,
    Positions,
    Report,
    Setting,
    WindowRequest,
)
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.declarations import Columns, Unit
from waterclock.flow.enums import WindowSignal
from waterclock.timelabel.label import TIMELABEL, label_of
from waterclock.timelabel.window import Window

PASSWORD = "r1ght/w0rd+of'memory"
LONG_AGO = datetime.fromisoformat("2013-01-01T00:00Z")


class Row(dict[str, Any]):
    """A row with the methods of Spark's Row."""

    asDict = dict[str, Any].copy  # noqa: N815 (Spark's own name)


class Frame:
    """A frame of given rows, or of an error that is raised when it is evaluated."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], error: Exception | None = None) -> None:
        self.rows = rows
        self.error = error
        self.columns = list(rows[0]) if rows else []

    def collect(self) -> list[Row]:
        if self.error:
            raise self.error
        return [Row(row) for row in self.rows]


class Memory:
    """A system with its connector, collectors and deliverers; `fault` is its defect, empty for none."""

    capabilities = Capabilities(type="memory", awaits=frozenset({WindowSignal.QUERY}))
    secrets = ("password",)
    zone_of_times = None
    change_column = "changed"

    def __init__(self, fault: str = "", folder: Path = Path()) -> None:
        self.fault = fault
        self.setting = setting_of("ops", folder, password=PASSWORD)
        self.unit = unit_of("ops", "totals")
        self.connector: Any = self
        self.rows_held: list[dict[str, Any]] = []
        self.items: list[tuple[Item, Sequence[Mapping[str, Any]]]] = []
        self.signs: set[str] = set()
        self.changes: dict[datetime, int] = {}
        self.taken: dict[int, tuple[Delivered, list[dict[str, Any]]]] = {}
        self.is_cut = False

    # as a system

    @contextmanager
    def failing_midway(self) -> Iterator[None]:
        self.is_cut = True
        yield
        self.is_cut = False

    def hold(self, rows: Sequence[Mapping[str, str]]) -> None:
        self.rows_held = [dict(row) for row in rows]

    def remove(self) -> None:
        raise AssertionError("no test here removes it")

    def put(self, *said: Any) -> None:
        if isinstance(said[0], datetime):
            self.items.append((Item(f"item {len(self.items)}", said[0], 1, ""), said[1]))
        else:
            self.rows_held += [{"id": key, "at": time} for key, time in said[0]]
            for row in said[0]:
                self.revise(row)

    def append(self, notes: Sequence[str]) -> None:
        self.rows_held += [{"note": note} for note in notes]

    def append_in_vain(self, notes: Sequence[str]) -> bool:
        raise AssertionError(notes)

    def forget(self) -> bool:
        return False

    def put_unfinished(self, stamp: datetime) -> None:
        raise AssertionError(stamp)

    def revise(self, row: tuple[str, datetime]) -> None:
        start = row[1].replace(minute=0)
        self.changes[start] = self.changes.get(start, 0) + 1

    def awaits(self, sign: WindowSignal) -> Awaits:
        return Awaits(sign, "SELECT true")

    def give(self, sign: WindowSignal, window: Window) -> None:
        del sign
        self.signs.add(window.label)

    def rows(self) -> list[dict[str, Any]]:
        newest: dict[str, list[dict[str, Any]]] = {}
        for delivered, rows in self.taken.values():
            newest[delivered.label_text] = rows
        return [row for rows in newest.values() for row in rows]

    # as a connector

    def collector(self, setting: Setting) -> Opened:
        return Opened(self, setting)

    def deliverer(self, setting: Setting) -> Delivering:
        return Delivering(self, setting)


class Opened:
    """An open connection to it."""

    def __init__(self, memory: Memory, setting: Setting) -> None:
        self._memory = memory
        self._setting = setting
        self._fault = memory.fault

    def clock(self, unit: Unit) -> None:
        """Return None: it has no clock."""

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        del unit
        if self._fault == "says no columns":
            return None
        if self._fault == "shows it in what it gives":
            return {str(self._setting.options["password"]): "STRING"}
        return {} if self._fault == "says other columns" else {"id": "STRING", "note": "STRING"}

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        del columns
        if not isinstance(error, OSError) or self._fault == "explains nothing":
            return None
        told = WaterclockError("E810", "cut", where=str(unit), why=str(error), fix="wait", transient=True)
        return replaced(told, fix=None) if self._fault == "mends nothing" else told

    def read_snapshot(
        self, spark: Any, unit: Unit, columns: Columns, zone: str, *, now: datetime | None = None
    ) -> Collected:
        del spark, columns, zone, now
        self._enter(unit)
        return self._read(self._memory.rows_held)

    def read_windows(self, spark: Any, unit: Unit, request: WindowRequest, columns: Columns, zone: str) -> Collected:
        del spark, columns, zone
        self._enter(unit)
        rows = [
            {**row, TIMELABEL: window.label}
            for window in request.windows
            for row in self._memory.rows_held
            if window.start <= row["at"] < window.end
        ]
        return self._read(rows)

    def next_range(self, unit: Unit, reached: Positions | None, first: datetime) -> Positions | None:
        del first
        self._enter(unit)
        begin = reached.parts["0"][1] if reached else 0
        end = len(self._memory.rows_held)
        return Positions("memory", {"0": (begin, end)}) if end > begin else None

    def arrivals(self, unit: Unit, taken: Collection[str] = ()) -> Listing:
        del taken
        self._archive_if(self._fault == "archives for a stranger" and not self._is_known())
        self._enter(unit)
        return Listing(tuple(item for item, _ in self._memory.items))

    def find(self, unit: Unit, names: Collection[str]) -> tuple[Item, ...]:
        del unit
        return tuple(item for item, _ in self._memory.items if item.name in names)

    def read_items(
        self, spark: Any, unit: Unit, items: Mapping[datetime, Sequence[Item]], columns: Columns, zone: str
    ) -> Collected:
        del spark, columns, zone
        self._enter(unit)
        held = {item.name: rows for item, rows in self._memory.items}
        for one in (one for own in items.values() for one in own if one.positions):
            begin, end = one.positions.parts["0"] if one.positions else (0, 0)
            held[one.name] = self._memory.rows_held[begin:end]
        rows = [
            {**row, TIMELABEL: label_of(label)} for label, own in items.items() for one in own for row in held[one.name]
        ]
        self._archive_if(self._fault == "archives what it reads")
        return self._read(rows)

    def archive(self, unit: Unit, items: Sequence[Item]) -> tuple[Report, ...]:
        del unit, items
        self._archive_if("as it is asked to")
        return ()

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        del awaits, zone
        if self._fault == "takes a refusal for a missing sign" and not self._is_known():
            return False
        self._enter(unit)
        has = window.label in self._memory.signs
        if self._fault == "takes signs away":
            self._memory.signs.discard(window.label)
        return {"sees every sign": True, "sees no sign": False, "sees any sign": bool(self._memory.signs)}.get(
            self._fault, has
        )

    def scan_changes(
        self, spark: Any, unit: Unit, request: ChangeScanRequest, columns: Columns, zone: str
    ) -> ChangedWindows:
        del spark, columns, zone
        self._enter(unit)
        there = {window.start: self._memory.changes.get(window.start, 0) for window in request.windows}
        changed = {at: "it says so" for at, mark in request.marks.items() if mark.of_window != there[at]}
        if self._fault == "says what was never looked at":
            changed |= dict.fromkeys(there.keys() - request.marks.keys(), "it is new")
        if self._fault == "says all":
            changed = dict.fromkeys(request.marks, "who knows")
        if self._fault == "says none":
            changed = {}
        if self._fault == "says no why":
            changed = dict.fromkeys(changed, "")
        if self._fault == "remembers looks by itself":
            at_last = self.__dict__.setdefault("seen", self._memory.__dict__.setdefault("seen", {}))
            changed = {at: "new" for at in request.marks if at_last.get(at) != there[at]}
            at_last.update(there)
        noted: dict[datetime, Any] = dict(there)
        return ChangedWindows(changed, {}, noted)

    def _is_known(self) -> bool:
        return self._setting.options["password"] == PASSWORD

    def _enter(self, unit: Unit) -> None:
        word = str(self._setting.options["password"])
        if self._fault == "logs it":
            logging.getLogger("memory").info("asked with %s", word)
        if self._is_known() or self._fault == "lets anybody in":
            return
        error = WaterclockError("E810", "it refuses the login", where=str(unit), why="refused", fix="see the password")
        match self._fault:
            case "shows it":
                raise replaced(error, why=f"{word} is wrong")
            case "shows it in Base64":
                raise replaced(error, why=base64.b64encode(f"ann:{word}".encode()).decode())
            case "shows it in what caused the error":
                raise error from ValueError(word)
            case "names no connection":
                raise replaced(error, where=None)
            case "mends nothing":
                raise replaced(error, fix=None)
            case "raises its client's error":
                raise PermissionError("no")
            case "tells two errors":
                raise ProjectErrors([error, error])
            case "tells late":
                time.sleep(0.1)
        raise error

    def _read(self, rows: Sequence[Mapping[str, Any]]) -> Collected:
        memory = self._memory
        source = {"by": self._setting.options["password"]} if self._fault == "shows it in the manifest" else {}
        cut = OSError("the connection is gone") if memory.is_cut else None
        if memory.is_cut and self._fault == "shows it when it is cut":
            cut = OSError(f"{PASSWORD}@memory is gone")
        if memory.is_cut and self._fault == "gives half":
            rows, cut = rows[: len(rows) // 2], None
        if memory.is_cut and self._fault == "loses what was cut":
            memory.rows_held, memory.items = memory.rows_held[:20], [(item, own[:10]) for item, own in memory.items]
        frame: Any = Frame(rows, cut)
        return Collected(frame, source=source)

    def _archive_if(self, archives: object) -> None:
        if archives:
            self._memory.items = [(replace(item, is_archived=True), rows) for item, rows in self._memory.items]


class Delivering(Opened):
    """A destination in memory."""

    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        import pyarrow.parquet as pq

        if self._fault != "delivers before it is let in":
            self._enter(unit)
        done = []
        for one in deliveries:
            read = [row for file in one.files for row in pq.read_table(file).to_pylist()]
            rows = [{"id": row["id"], "amount": row["amount"], "timelabel": one.label_text} for row in read]
            delivered = Delivered(one.claim, DeliveryOutcome.DELIVERED, one.label_text, len(rows))
            self._memory.taken[one.claim] = (delivered, rows)
            done.append(delivered)
        self._enter(unit)
        return tuple(done)

    def find(self, unit: Unit, *of: Any) -> Any:
        del unit
        return self._memory.taken[of[-1]][0] if of[-1] in self._memory.taken else None


def replaced(error: WaterclockError, **parts: Any) -> WaterclockError:
    """Return the error with some parts replaced."""
    said = error.to_dict() | parts
    return WaterclockError(said.pop("code"), said.pop("what"), **said)
