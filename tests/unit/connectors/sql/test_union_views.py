"""A view over closed and open windows shows each label once, in any order of delivered batches and ticks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.systems import (
    DuckDatabase,
    FirebirdDatabase,
    MysqlDatabase,
    PostgresDatabase,
    SqliteDatabase,
    unit_of,
)
from waterclock.connectors.delivering import (
    Deliverer,
    Delivery,
    DeliveryOutcome,
    OpenWindowDestination,
    OpenWindowRows,
)
from waterclock.connectors.duckdb.database import database_of
from waterclock.connectors.sql.versioned_views import UNION
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Mode
from waterclock.timelabel.label import label_of

Database = SqliteDatabase | DuckDatabase | PostgresDatabase | MysqlDatabase | FirebirdDatabase
DATABASES: dict[str, Callable[[Path], Database]] = {
    "sqlite": SqliteDatabase, "duckdb": DuckDatabase, "postgres": PostgresDatabase, "mysql": MysqlDatabase,
    "firebird": FirebirdDatabase,
}  # fmt: skip
START = datetime(2013, 1, 1, tzinfo=UTC)
PROJECT, PUBLISH = "ours", "ops.to'tals"


def label(hour: int) -> str:
    return label_of(START + timedelta(hours=hour))


@dataclass
class Destination:
    """A database to which a table with open windows is published. Each row has an id, and `more` columns."""

    folder: Path
    database: Database
    claims: int = 0
    slices: int = 0
    more: tuple[str, ...] = ()
    unit: Unit = field(default_factory=lambda: unit_of("ops", "totals", speed=True))

    @property
    def deliverer(self) -> Deliverer:
        return self.database.connector.deliverer(self.database.setting)

    def slice_of(self, hour: int, ids: Collection[str], **changed: Any) -> Delivery:
        self.slices += 1
        path = self.folder / f"{self.slices}.parquet"
        columns = {"id": list(ids), "amount": pa.array([len(id_) for id_ in ids], pa.int32())}
        pq.write_table(pa.table({**columns, **{name: ["x"] * len(ids) for name in self.more}}), path)
        values: dict[str, Any] = {
            "project": PROJECT,
            "publish": PUBLISH,
            "claim": 0,
            "label": START + timedelta(hours=hour),
            "label_text": label(hour),
            "mode": Mode.APPEND,
            "is_from_partitioned": True,
            "columns": (("id", "STRING"), ("amount", "INT"), *((name, "STRING") for name in self.more)),
            "files": (path,),
            "note": f"slice {self.slices}",
        }
        return Delivery(**values | changed)

    def close(self, hour: int, *ids: str) -> DeliveryOutcome:
        self.claims += 1
        made = self.slice_of(hour, ids, claim=self.claims, note=UNION)
        return self.deliverer.deliver(self.unit, [made])[-1].outcome

    def show(self, opened: Mapping[int, Collection[str]], kept: Collection[int] = ()) -> int:
        made = tuple(self.slice_of(hour, ids) for hour, ids in opened.items())
        return self.read_and_show(lambda _: OpenWindowRows(shown=made, kept=frozenset(map(label, kept))))

    def read_and_show(self, read: Callable[[Collection[str]], OpenWindowRows]) -> int:
        deliverer = self.deliverer
        assert isinstance(deliverer, OpenWindowDestination)
        return deliverer.show_open(self.unit, PROJECT, PUBLISH, read)

    def rows(self, columns: str = "timelabel, id, is_closed") -> list[Any]:
        sql = f"SELECT {columns} FROM totals"
        if isinstance(self.database, DuckDatabase):  # a reader in the writing process
            with database_of(self.database.setting).open_for_writing("totals") as connection:
                found = connection.execute(sql).fetchall()
        else:
            found = self.database.run(sql)
        return sorted(tuple(bool(each) if at == 2 else each for at, each in enumerate(row)) for row in found)


@pytest.fixture(
    params=[
        "sqlite",
        "duckdb",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("postgres", "mysql", "firebird")),
    ]
)
def destination(request: pytest.FixtureRequest, tmp_path: Path) -> Destination:
    return Destination(tmp_path, DATABASES[request.param](tmp_path))


def test_open_windows_are_shown_until_they_are_delivered(destination: Destination) -> None:
    assert destination.show({0: ["a"], 1: ["b", "c"]}) == 2
    assert destination.rows() == [(label(0), "a", False), (label(1), "b", False), (label(1), "c", False)]
    assert destination.close(0, "a", "d") is DeliveryOutcome.DELIVERED
    assert destination.rows()[:2] == [(label(0), "a", True), (label(0), "d", True)]
    assert destination.database.run("SELECT count(*) FROM spd_totals WHERE id = 'a'")[0][0] == 0
    assert destination.show({1: ["b", "c", "e"], 2: []}, kept=[0]) == 2
    assert destination.close(0, "f") is DeliveryOutcome.DELIVERED  # it is restated
    assert [row[1:] for row in destination.rows()] == [("f", True), ("b", False), ("c", False), ("e", False)]
    assert destination.show({}, kept=[1]) == 1  # 2 is withdrawn, and 1 waits for its batch
    assert len(destination.rows()) == 4
    assert destination.close(1) is DeliveryOutcome.DELIVERED  # it had no rows left
    assert destination.rows() == [(label(0), "f", True)]


def test_a_delivered_label_is_never_shown_as_open_again(destination: Destination) -> None:
    destination.show({0: ["a"]})
    destination.close(0, "a", "b")
    assert destination.show({0: ["a"]}) == 0  # a tick that was read before the batch
    destination.close(1)
    assert destination.show({0: ["a"], 1: ["z"]}) == 0
    assert destination.rows() == [(label(0), "a", True), (label(0), "b", True)]


def test_a_slice_that_is_there_is_not_written_again(destination: Destination) -> None:
    made = destination.slice_of(0, ["a"])
    assert destination.read_and_show(lambda _: OpenWindowRows(shown=(made,))) == 1
    seen: list[Collection[str]] = []

    def read(there: Collection[str]) -> OpenWindowRows:
        seen.append([*there])
        return OpenWindowRows(shown=(made,))

    assert destination.read_and_show(read) == 0
    assert seen == [[label(0)]]


def test_rows_that_were_appended_are_written_alone_to_a_destination_that_has_the_others(
    destination: Destination,
) -> None:
    first, both = destination.slice_of(0, ["a"]), destination.slice_of(0, ["a", "b"])
    # its file has a row that `both` does not have, so the test sees which of the two is written
    new = destination.slice_of(0, ["c"], note=both.note, appended_to=first.note)
    appended = {label(0): new}

    def show(*shown: Delivery) -> list[str]:
        destination.read_and_show(lambda _: OpenWindowRows(shown=shown, appended=appended))
        return [id_ for _, id_, _ in destination.rows()]

    assert show(first) == ["a"]
    assert show(both) == ["a", "c"]
    assert show(both) == ["a", "c"]  # nothing has changed
    other = destination.slice_of(0, ["x"])
    assert show(other) == ["x"]
    assert show(both) == ["a", "b"]  # the destination shows another slice than `first`
    assert destination.close(0, "d") is DeliveryOutcome.DELIVERED
    assert show(both) == ["d"]


def test_columns_that_are_added_later_are_in_the_view(destination: Destination) -> None:
    destination.close(0, "a")
    destination.show({1: ["b"]})
    destination.more = ("colour",)
    destination.show({1: ["b"], 2: ["c"]})
    found = {row[0]: row[1] for row in destination.database.run("SELECT id, colour FROM totals")}
    assert found == {"a": None, "b": "x", "c": "x"}
    destination.close(1, "b")
    assert {row[1] for row in destination.rows()} == {"a", "b", "c"}


def test_an_error_leaves_the_view_as_it_was(destination: Destination) -> None:
    destination.show({0: ["a"]})

    def strike(point: str) -> None:
        if point in {"open.written", "deliver.rows"}:
            raise OSError("struck")

    with inject_faults(strike), pytest.raises(OSError, match="struck"):
        destination.show({0: ["a", "b"], 1: ["c"]})
    assert destination.rows() == [(label(0), "a", False)]
    with inject_faults(strike), pytest.raises(OSError, match="struck"):
        destination.close(0, "z")
    assert destination.rows() == [(label(0), "a", False)]
    destination.close(0, "z")
    assert destination.rows() == [(label(0), "z", True)]


def test_names_that_others_use_are_refused(destination: Destination) -> None:
    destination.database.run("CREATE TABLE totals (id INT)")
    with pytest.raises(WaterclockError) as raised:
        destination.show({0: ["a"]})
    assert raised.value.code == "E829"
    destination.database.run("DROP TABLE totals")
    destination.database.run("CREATE VIEW totals AS SELECT 1 AS id FROM unrelated")
    with pytest.raises(WaterclockError) as raised:
        destination.close(0, "a")
    assert raised.value.code == "E829"
    destination.database.run("DROP VIEW totals")
    destination.show({0: ["a"]})
    destination.unit = unit_of("ops", "totals")  # the option is removed again
    with pytest.raises(WaterclockError) as raised:
        destination.close(0, "a")
    assert raised.value.code in {"E820", "E829", "E875"}


def test_a_lost_delivery_is_found(destination: Destination) -> None:
    destination.show({1: ["b"]})
    destination.close(0, "a")
    assert destination.deliverer.find_loss(destination.unit, PROJECT, PUBLISH, destination.claims) is None
    destination.database.run("DELETE FROM btc_totals")
    lost = destination.deliverer.find_loss(destination.unit, PROJECT, PUBLISH, destination.claims)
    assert lost is not None
    assert "btc_totals holds 0 rows" in lost
    last = destination.deliverer.last(destination.unit, PROJECT, PUBLISH)
    assert last is not None
    assert last.label_text == label(0)  # an open label is no delivery


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_a_runner_that_stops_does_not_keep_its_lock(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"waterclock.connectors.{kind}.delivery.LONGEST_PAUSE", 1)
    destination = Destination(tmp_path, DATABASES[kind](tmp_path))
    destination.show({0: ["a"]})

    def stop(_held: Collection[str]) -> OpenWindowRows:
        for _ in range(100):
            with suppress(WaterclockError):
                destination.close(0, "a", "b")  # a batch waits for the lock until its timeout
                break
        return OpenWindowRows()

    with pytest.raises(WaterclockError) as raised:
        destination.read_and_show(stop)
    assert raised.value.transient
    assert destination.rows() == [(label(0), "a", True), (label(0), "b", True)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))])
def test_no_order_of_ticks_and_batches_shows_a_row_twice_or_loses_it(destination: Destination, seed: int) -> None:
    """Ticks may be of any age; `seen` are the ids of each label that the newest write showed."""
    random = Random(seed)
    arrived: dict[int, list[str]] = {}
    closed: dict[int, list[str]] = {}
    numbers = iter(range(1000))
    for _ in range(20):
        now = len(closed) + random.choice((0, 0, 1))
        arrived.setdefault(now, []).append(f"id{next(numbers)}")
        if random.random() < 0.7:
            batch_done = set(range(min(now, len(closed) + 1)))  # computed, but perhaps not delivered yet
            opened = {hour: ids for hour, ids in arrived.items() if hour not in batch_done or random.random() < 0.5}
            destination.show(opened, kept=batch_done)
        if random.random() < 0.3 and len(closed) in arrived:
            hour = len(closed)
            closed[hour] = [*arrived[hour]]
            destination.close(hour, *closed[hour])
        if not closed and not destination.slices:
            continue
        found = destination.rows()
        ids = [row[1] for row in found]
        assert len(ids) == len(set(ids))
        for hour, of_label in closed.items():
            assert [row[1:] for row in found if row[0] == label(hour)] == [(id_, True) for id_ in sorted(of_label)]
        assert all(row[1] in arrived[int(row[0][8:10])] for row in found)


def test_a_reader_finds_each_row_once_while_others_write(destination: Destination) -> None:
    """Batches and ticks of two runners write at the same time as the view is read."""
    destination.show({0: ["h0"]})
    errors: list[BaseException] = []
    done = threading.Event()

    def tick() -> None:
        ticking = Destination(destination.folder / "ticks", destination.database, unit=destination.unit)
        ticking.folder.mkdir(exist_ok=True)
        try:
            while not done.is_set():
                try:
                    ticking.show({hour: [f"h{hour}"] for hour in range(8)})
                except WaterclockError as error:
                    if not error.transient:
                        raise
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        seen: set[str] = set()
        for hour in range(7):
            for _ in range(50):
                try:
                    destination.close(hour, f"h{hour}")
                    break
                except WaterclockError as error:
                    if not error.transient:
                        raise
            ids = [row[1] for row in destination.rows()]
            assert len(ids) == len(set(ids))
            assert seen <= set(ids)
            seen = set(ids)
    finally:
        done.set()
        thread.join(60)
    assert errors == []
    assert [row[1:] for row in destination.rows()][:7] == [(f"h{hour}", True) for hour in range(7)]
