from __future__ import annotations

import csv
import gzip
import io
import json
import os
import resource
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.systems import PublishedFolder, unit_of
from waterclock.connectors.delivering import Deliverer, Delivery, DeliveryOutcome
from waterclock.connectors.files.file_writing import WriteOptions, write_file
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.declarations import Value
from waterclock.flow.enums import Mode

FIRST, SECOND = "20130101000000", "20130102000000"


class Struck(Exception):
    pass


def strike_at(wanted: str) -> Callable[[str], None]:
    def strike(point: str) -> None:
        if point == wanted:
            raise Struck

    return strike


@pytest.fixture
def out(tmp_path: Path) -> PublishedFolder:
    return PublishedFolder(tmp_path)


def deliverer(out: PublishedFolder) -> Deliverer:
    return out.connector.deliverer(out.setting)


def delivery(out: PublishedFolder, ids: list[str], claim: int = 1, label: str = FIRST, **changes: Any) -> Delivery:
    path = out.folder.parent / f"{claim}-{label}.parquet"
    pq.write_table(pa.table({"id": pa.array(ids, pa.string())}), path)
    made = Delivery(
        project="flights",
        publish="out.daily.totals",
        claim=claim,
        label=datetime(2013, 1, 1, tzinfo=UTC),
        label_text=label,
        mode=Mode.REPLACE,
        is_from_partitioned=False,
        columns=(("id", "STRING"),),
        files=(path,),
    )
    return replace(made, **changes)


def deliver(out: PublishedFolder, one: Delivery, **options: Value) -> DeliveryOutcome:
    unit = unit_of("out", "daily.totals", **options)
    return deliverer(out).deliver(unit, [one])[0].outcome


def places(out: PublishedFolder) -> list[str]:
    found = (path for path in out.folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(out.folder).as_posix() for path in found if "_waterclock" not in path.parts)


def ids(out: PublishedFolder) -> list[str]:
    return [row["id"] for row in out.rows()]


def test_a_partitioned_table_has_a_file_for_each_label(out: PublishedFolder) -> None:
    for claim, label in ((1, FIRST), (2, SECOND)):
        deliver(out, delivery(out, ["a"], claim, label, is_from_partitioned=True), compression="gzip")
    assert places(out) == [
        "daily/totals/daily_totals_20130101000000.csv.gz",
        "daily/totals/daily_totals_20130102000000.csv.gz",
    ]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_a_delivered_file_has_timelabel_as_its_last_column_unless_disabled(out: PublishedFolder, kind: str) -> None:
    for claim, option, wanted in ((1, True, {"id": "a", "timelabel": FIRST}), (2, False, {"id": "a"})):
        one = delivery(out, ["a"], claim=claim, is_from_partitioned=True)
        assert deliver(out, one, format=kind, timelabel=option) is DeliveryOutcome.DELIVERED
        (place,) = places(out)
        rows = out.content(out.folder / place)
        assert [list(row.items()) for row in rows] == [list(wanted.items())]


def test_a_regular_table_has_one_file(out: PublishedFolder) -> None:
    for claim, label in ((1, FIRST), (2, SECOND)):
        deliver(out, delivery(out, [label], claim, label), format="parquet")
    assert places(out) == ["daily/totals/daily_totals.parquet"]
    assert ids(out) == [SECOND]


def test_an_empty_slice_is_a_file_with_a_header(out: PublishedFolder) -> None:
    deliver(out, delivery(out, [], is_from_partitioned=True, files=()))
    (path,) = (out.folder / place for place in places(out))
    assert path.read_text() == "id,timelabel\n"


@pytest.mark.parametrize("point", ["deliver.rows", "deliver.latched"])
def test_readers_see_the_old_file_until_the_new_one_is_in_place(out: PublishedFolder, point: str) -> None:
    deliver(out, delivery(out, ["old"]))
    with pytest.raises(Struck), inject_faults(strike_at(point)):
        deliver(out, delivery(out, ["new"], 2))
    assert ids(out) == ["old"]


def test_looking_at_a_latched_claim_puts_its_file_in_place(out: PublishedFolder) -> None:
    with pytest.raises(Struck), inject_faults(strike_at("deliver.latched")):
        deliver(out, delivery(out, ["new"], 2))
    stands = deliverer(out).kill(out.unit, "flights", "out.daily.totals", 2)
    assert stands.outcome is DeliveryOutcome.DELIVERED
    assert ids(out) == ["new"]
    assert places(out) == ["daily/totals/daily_totals.csv"]


def test_a_file_left_by_a_crashed_delivery_never_replaces_a_newer_one(out: PublishedFolder) -> None:
    with pytest.raises(Struck), inject_faults(strike_at("deliver.latched")):
        deliver(out, delivery(out, ["older"], 2, FIRST))
    deliver(out, delivery(out, ["newer"], 3, SECOND))
    assert deliverer(out).find(out.unit, "flights", "out.daily.totals", 2) is not None
    assert ids(out) == ["newer"]


def test_a_paused_runner_that_was_killed_delivers_nothing(out: PublishedFolder) -> None:
    def be_killed(point: str) -> None:
        if point == "deliver.rows":
            deliverer(out).kill(out.unit, "flights", "out.daily.totals", 1)

    with inject_faults(be_killed):
        outcome = deliver(out, delivery(out, ["a"]))
    assert outcome is DeliveryOutcome.KILLED
    assert list(out.folder.rglob("*.part")) == []
    assert places(out) == []


def test_a_paused_runner_that_was_finished_by_another_undoes_nothing(out: PublishedFolder) -> None:
    def be_overtaken(point: str) -> None:
        if point == "deliver.latched":
            assert deliverer(out).find(out.unit, "flights", "out.daily.totals", 1) is not None
            with inject_faults(lambda _: None):
                deliver(out, delivery(out, ["newer"], 2, SECOND))

    raised = iter([be_overtaken])

    def strike(point: str) -> None:
        if point == "deliver.latched" and (once := next(raised, None)):
            once(point)

    with inject_faults(strike):
        deliver(out, delivery(out, ["older"], 1, FIRST))
    assert ids(out) == ["newer"]


def test_a_late_runner_of_an_older_claim_does_not_overwrite_a_newer_file(
    out: PublishedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "waterclock.connectors.files.delivery.write_file"

    def be_overtaken(*told: Any) -> int:
        monkeypatch.setattr(name, write_file)
        deliver(out, delivery(out, ["older"], 1, FIRST))
        deliver(out, delivery(out, ["newer"], 2, SECOND))
        return write_file(*told)

    stale = delivery(out, ["stale"], 1, FIRST)
    monkeypatch.setattr(name, be_overtaken)
    assert deliver(out, stale) is DeliveryOutcome.DELIVERED
    assert ids(out) == ["newer"]
    assert places(out) == ["daily/totals/daily_totals.csv"]


def test_a_part_that_is_too_late_is_removed_by_the_next_delivery_and_one_at_work_stays(out: PublishedFolder) -> None:
    left = [f".daily_totals.csv.{claim}.{'0' * 32}.part" for claim in (1, 7)]
    deliver(out, delivery(out, ["a"], 1, FIRST))
    for name in left:
        (out.folder / "daily" / "totals" / name).write_text("left by a runner that was killed")
    deliver(out, delivery(out, ["b"], 2, SECOND))
    assert places(out) == [f"daily/totals/{left[1]}", "daily/totals/daily_totals.csv"]
    deliverer(out).kill(out.unit, "flights", "out.daily.totals", 7)
    assert places(out) == ["daily/totals/daily_totals.csv"]


def test_missing_or_changed_files_of_a_delivery_are_reported(out: PublishedFolder) -> None:
    deliver(out, delivery(out, ["a"]))
    assert lost(out) is None
    (out.folder / places(out)[0]).write_text("id\nsomething else\n")
    assert lost(out) == "daily_totals.csv has 18 bytes, 7 were delivered"
    (out.folder / places(out)[0]).unlink()
    assert lost(out) == "daily_totals.csv is gone"
    (out.folder / "_waterclock" / "deliveries" / "flights" / "out.daily.totals" / "1.json").unlink()
    assert lost(out) == "_waterclock/deliveries/flights/out.daily.totals has no record of claim 1"


def test_a_file_that_a_crash_left_aside_is_not_lost(out: PublishedFolder) -> None:
    with pytest.raises(Struck), inject_faults(strike_at("deliver.latched")):
        deliver(out, delivery(out, ["new"]))
    assert lost(out) is None
    assert ids(out) == ["new"]


def lost(out: PublishedFolder) -> str | None:
    return deliverer(out).find_loss(out.unit, "flights", "out.daily.totals", 1)


def test_a_folder_of_another_project_is_refused(out: PublishedFolder) -> None:
    deliver(out, delivery(out, ["a"]))
    with pytest.raises(WaterclockError, match="E820"):
        deliver(out, delivery(out, ["b"], 2, project="trains"))
    assert ids(out) == ["a"]


def test_an_unwritable_folder_is_reported(out: PublishedFolder) -> None:
    (out.folder / "daily").write_text("in the way")
    with pytest.raises(WaterclockError) as caught:
        deliver(out, delivery(out, ["a"]))
    assert caught.value.code == "E821"
    assert caught.value.where == "out.daily.totals@20130101000000"


def test_a_full_disk_changes_nothing(out: PublishedFolder) -> None:
    deliver(out, delivery(out, ["a"]))
    big = delivery(out, [f"{at:0>500}" for at in range(20_000)], 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(WaterclockError, match="E821"):
            deliver(out, big)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ids(out) == ["a"]
    assert list(out.folder.rglob("*.part")) == []
    assert deliver(out, big) is DeliveryOutcome.DELIVERED
    assert len(ids(out)) == 20_000


def test_a_format_with_a_compression_that_it_does_not_have_is_refused() -> None:
    with pytest.raises(WaterclockError, match="E809"):
        WriteOptions("parquet", "bz2")


VALUES: dict[str, tuple[str, pa.DataType, object]] = {
    "i": ("int", pa.int32(), 7),
    "m": ("decimal(12,2)", pa.decimal128(12, 2), Decimal("12.30")),
    "b": ("boolean", pa.bool_(), True),
    "s": ("string", pa.string(), 'a "b", c'),
    "y": ("binary", pa.binary(), b"\x00\xff"),
    "d": ("date", pa.date32(), date(2013, 1, 1)),
    "t": ("timestamp", pa.timestamp("us", "UTC"), datetime(2013, 1, 1, 5, tzinfo=UTC)),
    "u": ("timestamp", pa.timestamp("us", "UTC"), datetime(2013, 1, 1, 5, 0, 0, 250000, tzinfo=UTC)),
    "n": ("timestamp_ntz", pa.timestamp("us"), datetime(2013, 1, 1, 5)),  # noqa: DTZ001 (it has no zone)
    "l": ("array<int>", pa.list_(pa.int32()), [1, None]),
}


def typed(out: PublishedFolder) -> Delivery:
    path = out.folder.parent / "typed.parquet"
    pq.write_table(pa.table({name: pa.array([given, None], kind) for name, (_, kind, given) in VALUES.items()}), path)
    return delivery(out, [], columns=tuple((name, kind) for name, (kind, _, _) in VALUES.items()), files=(path,))


def test_values_of_every_type_are_written_as_csv(out: PublishedFolder) -> None:
    deliver(out, typed(out), compression="gzip", delimiter=";")
    (place,) = places(out)
    text = gzip.decompress((out.folder / place).read_bytes()).decode()
    header, full, empty = csv.reader(io.StringIO(text), delimiter=";")
    assert header == list(VALUES)
    assert full == [
        "7",
        "12.30",
        "true",
        'a "b", c',
        "AP8=",
        "2013-01-01",
        "2013-01-01 05:00:00Z",
        "2013-01-01 05:00:00.250000Z",
        "2013-01-01 05:00:00",
        "[1, null]",
    ]
    assert set(empty) == {""}


def test_values_of_every_type_are_written_as_json(out: PublishedFolder) -> None:
    deliver(out, typed(out), format="json")
    (place,) = places(out)
    full, empty = (json.loads(line) for line in (out.folder / place).read_text().splitlines())
    assert full == {
        "i": 7,
        "m": "12.30",
        "b": True,
        "s": 'a "b", c',
        "y": "AP8=",
        "d": "2013-01-01",
        "t": "2013-01-01 05:00:00Z",
        "u": "2013-01-01 05:00:00.250000Z",
        "n": "2013-01-01 05:00:00",
        "l": [1, None],
    }
    assert set(empty.values()) == {None}


def test_parquet_keeps_types(out: PublishedFolder) -> None:
    deliver(out, typed(out), format="parquet", compression="zstd")
    (place,) = places(out)
    schema = pq.read_schema(out.folder / place)
    assert {field.name: field.type for field in schema}["t"] == pa.timestamp("us", "UTC")
    assert len(schema.names) == len(VALUES)


def test_a_delivery_is_flushed_to_disk(out: PublishedFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        flushed.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    deliver(out, delivery(out, ["a"]))
    assert len(flushed) == 4, "the file, its record, and the folders of both"
