"""Random histories of a destination: restatements, faults at each point, kills and late labels, against a model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.systems import setting_of, unit_of
from waterclock.connectors.delivering import Deliverer, Delivery, DeliveryOutcome
from waterclock.connectors.duckdb.connector import CONNECTOR as DUCKDB
from waterclock.connectors.files.connector import CONNECTOR as FILES
from waterclock.connectors.sqlite.connector import CONNECTOR as SQLITE
from waterclock.faults import inject_faults
from waterclock.flow.declarations import Unit, Value
from waterclock.flow.enums import Mode
from waterclock.timelabel.label import label_of

Row = tuple[str, int | None, str | None]
Told = tuple[str, str, int | None, str | None]
Shown = Counter[Told]
LABELS = [datetime(2013, 1, day, tzinfo=UTC) for day in range(1, 5)]
TEXTS = ("", None, "a", 'b,"c\n', "é\r\n", "NULL")
COLUMNS = (("id", "STRING"), ("amount", "INT"), ("text", "STRING"))
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))]
STEPS = 12


class Struck(Exception):
    """Ends the process here."""


@dataclass
class Destination:
    """A destination, and how others read its rows: each with its label, or an empty one."""

    deliverer: Deliverer
    unit: Unit
    read: Callable[[], list[Told]]


@dataclass
class Life:
    """A destination and its expected content."""

    folder: Path
    dice: Random
    to: Destination
    kind: str
    by_label: dict[datetime, dict[str, Row]] = field(default_factory=dict)
    state: dict[str, Row] = field(default_factory=dict)
    newest: datetime | None = None
    claim: int = 0
    killed: list[list[Delivery]] = field(default_factory=list)

    def step(self) -> None:
        """Deliver one to three labels in one claim, despite faults."""
        dice = self.dice
        chosen = sorted(dice.sample(LABELS, dice.randint(1, 3))) if self.kind != "state" else [dice.choice(LABELS)]
        after = [self.drawn() for _ in chosen]
        for _ in range(9):
            self.claim += 1
            made = self.deliveries(chosen, after)
            if self.brought(made):
                return
        raise AssertionError("it was killed nine times")

    def drawn(self) -> dict[str, Row]:
        ids = self.dice.sample("abcdefgh", self.dice.randint(0, 6))
        return {one: (one, self.dice.choice([None, 0, 1, -7]), self.dice.choice(TEXTS)) for one in ids}

    def deliveries(self, labels: Sequence[datetime], after: Sequence[dict[str, Row]]) -> list[Delivery]:
        known = {label: dict(rows) for label, rows in self.by_label.items()}
        made: list[Delivery] = []
        for label, rows in zip(labels, after, strict=True):
            if self.kind == "append":
                made.append(self.delivery(label, [(*row, False, None) for row in rows.values()]))
            elif self.kind == "keyed":
                made.append(self.keyed(label, rows, known))
            elif self.kind == "replace":
                made.append(self.delivery(label, [(*row, False, None) for row in rows.values()]))
            else:
                made.append(self.changes(label, rows))
            known[label] = rows
        return made

    def keyed(self, label: datetime, rows: dict[str, Row], known: dict[datetime, dict[str, Row]]) -> Delivery:
        sent: list[tuple[Any, ...]] = [(*row, False, None) for row in rows.values()]
        for key in known.get(label, {}).keys() - rows.keys():
            holders = [other for other in known if other != label and key in known[other]]
            if holders and max(holders) < label:
                sent.append((*known[max(holders)][key], False, label_of(max(holders))))
        return replace(self.delivery(label, sent), keys=("id",), label_column="_of")

    def changes(self, label: datetime, rows: dict[str, Row]) -> Delivery:
        if self.dice.random() < 0.3:
            whole: list[tuple[Any, ...]] = [(*row, False, None) for row in rows.values()]
            return replace(self.delivery(label, whole), keys=("id",), deleted_column="_gone", is_whole=True)
        sent: list[tuple[Any, ...]] = [(*row, False, None) for key, row in rows.items() if self.state.get(key) != row]
        sent += [(key, None, None, True, None) for key in self.state.keys() - rows.keys()]
        return replace(self.delivery(label, sent), keys=("id",), deleted_column="_gone")

    def delivery(self, label: datetime, rows: Sequence[tuple[Any, ...]]) -> Delivery:
        path = self.folder / f"{self.claim}-{label_of(label)}.parquet"
        fields = [("id", pa.string()), ("amount", pa.int32()), ("text", pa.string())]
        schema = pa.schema([*fields, ("_gone", pa.bool_()), ("_of", pa.string())])
        pq.write_table(pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema), path)
        mode = {"append": Mode.APPEND, "keyed": Mode.MERGE, "replace": Mode.REPLACE, "state": Mode.MERGE}[self.kind]
        return Delivery(
            project="p", publish="out.t", claim=self.claim, label=label, label_text=label_of(label), mode=mode,
            is_from_partitioned=self.kind == "keyed", columns=COLUMNS, files=(path,),
        )  # fmt: skip

    def brought(self, made: list[Delivery]) -> bool:
        """Deliver a claim despite faults, or kill the delivery; return whether it was delivered."""
        claim = made[0].claim
        for _ in range(self.dice.randint(0, 2)):
            left = [self.dice.randint(1, 4)]

            def strike(_: str, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] == 0:
                    raise Struck

            try:
                with inject_faults(strike):
                    self.to.deliverer.deliver(self.to.unit, made)
            except Struck:
                pass
        if self.dice.random() < 0.3:
            outcome = self.to.deliverer.kill(self.to.unit, "p", "out.t", claim).outcome
        else:
            outcome = self.to.deliverer.deliver(self.to.unit, made)[-1].outcome
        for one in self.dice.sample(self.killed, min(1, len(self.killed))):
            assert self.to.deliverer.deliver(self.to.unit, one)[-1].outcome is DeliveryOutcome.KILLED
        if outcome is DeliveryOutcome.KILLED:
            self.killed.append(made)
            return False
        for delivery in made:
            self.note(delivery)
        assert self.to.deliverer.find(self.to.unit, "p", "out.t", claim) is not None
        return True

    def note(self, delivery: Delivery) -> None:
        rows = pq.read_table(delivery.files[0]).to_pylist()
        own = {
            row["id"]: (row["id"], row["amount"], row["text"]) for row in rows if not row["_gone"] and not row["_of"]
        }
        if delivery.is_by_label:
            self.by_label[delivery.label] = own
        elif self.newest is None or delivery.label >= self.newest:
            self.newest = delivery.label
            gone = {row["id"] for row in rows if row["_gone"]}
            kept = {} if delivery.mode is Mode.REPLACE or delivery.is_whole else self.state
            self.state = {key: row for key, row in kept.items() if key not in gone} | own

    def expected(self) -> Shown:
        if self.kind in {"replace", "state"}:
            return Counter(("", *row) for row in self.state.values())
        if self.kind == "append":
            return Counter((label_of(label), *row) for label, rows in self.by_label.items() for row in rows.values())
        tops: dict[str, Told] = {}
        for label in sorted(self.by_label):
            tops |= {key: (label_of(label), *row) for key, row in self.by_label[label].items()}
        return Counter(tops.values())


def database(connector: Any, name: str, folder: Path, connect: Callable[[str], Any]) -> Destination:
    path = folder / f"out.{name}"
    setting = setting_of("out", folder, path=str(path), create=True)

    def read() -> list[Told]:
        connection = connect(str(path))
        try:
            asked = connection.execute("SELECT * FROM t")
            names = [column[0] for column in asked.description]
            rows = [dict(zip(names, row, strict=True)) for row in asked.fetchall()]
        finally:
            connection.close()
        return [(row.get("timelabel", ""), row["id"], row["amount"], row["text"]) for row in rows]

    return Destination(connector.deliverer(setting), unit_of("out", "t"), read)


def files(folder: Path, kind: str) -> Destination:
    options: dict[str, Value] = {"format": kind}

    def read() -> list[Told]:
        found = []
        for path in sorted((folder / "out" / "t").iterdir()):
            for row in _rows_in(path, kind):
                assert row.get("timelabel", "") in path.name
                found.append((row.get("timelabel", ""), row["id"], row["amount"], row["text"]))
        return found

    setting = setting_of("out", folder, path=str(folder / "out"))
    return Destination(FILES.deliverer(setting), unit_of("out", "t", **options), read)


def _rows_in(path: Path, kind: str) -> list[dict[str, Any]]:
    assert not path.name.startswith("."), "no staged rows are left"
    if kind == "json":
        return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    if kind == "parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    if kind == "avro":
        import fastavro

        with path.open("rb") as file:
            found: list[Any] = list(fastavro.reader(file))
            return found
    from pyarrow import csv

    texts = {name: pa.string() for name in ("id", "text", "timelabel")}
    read = csv.ConvertOptions(
        column_types={**texts, "amount": pa.int32()}, strings_can_be_null=True, quoted_strings_can_be_null=False,
        null_values=[""],
    )  # fmt: skip
    parsed: Any = csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True), convert_options=read)
    return [dict(row) for row in parsed.to_pylist()]


def duckdb_at(folder: Path) -> Destination:
    import duckdb

    return database(DUCKDB, "duckdb", folder, duckdb.connect)


def sqlite_at(folder: Path) -> Destination:
    import sqlite3

    return database(SQLITE, "sqlite", folder, sqlite3.connect)


def files_of(kind: str) -> Callable[[Path], Destination]:
    return lambda folder: files(folder, kind)


CASES = [
    *(
        pytest.param(make, kind, marks=marks)
        for make, marks in ((duckdb_at, pytest.mark.slow), (sqlite_at, ()))
        for kind in ("append", "keyed", "replace", "state")
    ),
    *((files_of(kind), how) for kind in ("json", "parquet", "avro", "csv") for how in ("append", "replace")),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("make", "kind"), CASES)
def test_a_destination_always_contains_the_rows_of_the_model_after_random_deliveries(
    tmp_path: Path, make: Callable[[Path], Destination], kind: str, seed: int
) -> None:
    life = Life(tmp_path, Random(f"{kind} {seed}"), make(tmp_path), kind)
    (tmp_path / "out").mkdir()
    for _ in range(STEPS):
        life.step()
        assert Counter(life.to.read()) == life.expected(), f"step of claim {life.claim}"
