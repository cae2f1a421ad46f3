"""SORT BY in whole runs: each file of each kind of table is sorted, and nothing else changes (PT-52)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.tiny import Tiny, day, described, labels
from waterclock.engine.maintenance.rebuild import plan_rebuild, rebuild_table
from waterclock.storage.folds import key_replacement, write_state
from waterclock.storage.folds.drop_rows import can_copy_without_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from waterclock.storage.log.live_files import LiveFile

pytestmark = pytest.mark.spark
COLLECT = "COLLECT {}.{} (id BIGINT{}, v BIGINT, at TIMESTAMP) FROM shop.facts EVERY DAY BY DATA TIME at {};\n"
SORTED = {
    "parts": "SORT BY (v, id)",
    "appended": "SORT BY (v, id)",
    "merged": "SORT BY (v, id)",
    "kept": "SORT BY (v, rec_eff_time)",
    "sums": "SORT BY (v, id)",
}


STATEMENTS = {
    "parts": COLLECT.format("{0}", "parts PARTITIONED", "", "{1}"),
    "appended": COLLECT.format("{0}", "appended", "", "APPEND {1}"),
    "merged": COLLECT.format("{0}", "merged", " KEY", "MERGE ORDER BY at {1}"),
    "kept": COLLECT.format("{0}", "kept", " KEY", "TEMPORAL AT at {1}"),
    "sums": "TRANSFORM {0}.sums {1} AS SELECT id, sum(v) AS v FROM {0}.appended GROUP BY id;\n",
}


def flow(schema: str, sort_by: dict[str, str], *names: str) -> str:
    return "".join(STATEMENTS[name].format(schema, sort_by.get(name, "")) for name in names or STATEMENTS)


def facts(*days: int) -> list[tuple[int, int, str]]:
    chance = random.Random(7)
    return [
        (key, chance.randint(1, 1000), f"2020-01-{number:02d} {key % 24:02d}:00:00")
        for number in days
        for key in chance.sample(range(60), 40)
    ]


def fill(tiny: Tiny, *days: int) -> None:
    tiny.source("facts", "id INTEGER, v INTEGER, at TEXT", facts(*days))


def run(tiny: Tiny, number: int) -> None:
    outcome = tiny.run(day(number))
    assert not outcome.failed, described(outcome)


def files_of(tiny: Tiny, table: str) -> list[Path]:
    folder = tiny.root / tiny.storage / "tables" / table.replace(".", "/")
    return [folder / path for path in sorted(DeltaTable(folder).file_uris())]


def is_in_order(path: Path, columns: Sequence[str]) -> bool:
    table = pq.read_table(path, columns=list(columns), partitioning=None)
    rows = list(zip(*(table[name].to_pylist() for name in columns), strict=True))
    return rows == sorted(rows)


def are_all_in_order(tiny: Tiny) -> bool:
    return all(
        is_in_order(path, ("v", "rec_eff_time") if name == "kept" else ("v", "id"))
        for name in SORTED
        for path in files_of(tiny, f"raw.{name}")
    )


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return three days in one group of labels, and a fourth alone."""
    tiny = Tiny(tmp_path_factory.mktemp("sorted"), spark)
    tiny.declare(flow("raw", SORTED) + flow("plain", {}))
    fill(tiny, 1, 2, 3)
    run(tiny, 4)
    fill(tiny, 1, 2, 3, 4)
    run(tiny, 5)
    return tiny


def test_all_files_are_in_order_and_rows_and_digests_are_those_without_it(lived: Tiny) -> None:
    assert are_all_in_order(lived)
    assert not all(is_in_order(path, ("v", "id")) for path in files_of(lived, "plain.parts"))
    digests = lived.digests()
    found = {label: digest for (table, label), digest in digests.items() if table == "raw.parts"}
    assert sorted(found) == labels(1, 2, 3, 4)
    for (table, label), digest in digests.items():
        assert digest == digests[table.replace("raw.", "plain."), label]
    for name in SORTED:
        rows = [lived.rows(f"SELECT * FROM {schema}.{name} ORDER BY ALL") for schema in ("raw", "plain")]
        assert rows[0] == rows[1]
        assert rows[0]


def test_another_order_makes_no_batch_again_and_holds_from_the_next_one(lived: Tiny, tmp_path: Path) -> None:
    tiny = lived.copied(tmp_path / "copy")
    made = {name: tiny.runs_of(f"raw.{name}") for name in SORTED}
    before = files_of(tiny, "raw.parts")
    tiny.declare(flow("raw", SORTED | {"parts": "SORT BY (at)", "merged": ""}))
    run(tiny, 5)
    assert {name: tiny.runs_of(f"raw.{name}") for name in SORTED} == made
    assert files_of(tiny, "raw.parts") == before
    fill(tiny, 1, 2, 3, 4, 5)
    run(tiny, 6)
    new = set(files_of(tiny, "raw.parts")) - set(before)
    assert new
    assert all(is_in_order(path, ("at",)) for path in new)
    assert not all(is_in_order(path, ("v", "id")) for path in new)
    assert not all(is_in_order(path, ("v", "id")) for path in files_of(tiny, "raw.merged"))


def test_states_that_change_file_by_file_and_late_labels_and_rebuilt_states_are_in_order(
    lived: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = lived.copied(tmp_path / "copy")
    copied: list[str] = []

    def may_copy(_: SparkSession, folder: str, files: Sequence[LiveFile]) -> bool:
        copied.append(folder)
        return can_copy_without_rows(Path(folder), [file.path for file in files])

    monkeypatch.setattr(write_state, "MOST_BYTES_REWRITTEN", -1)
    monkeypatch.setattr(key_replacement, "_WHOLE_FROM", 2)
    for module in (write_state, key_replacement):
        monkeypatch.setattr(module, "may_copy", may_copy)
    tiny.declare(flow("raw", SORTED, "merged", "kept") + flow("plain", {}, "merged", "kept"))
    fill(tiny, 1, 2, 3, 4, 5)
    run(tiny, 6)
    assert are_all_in_order(tiny)
    with tiny.ledger() as ledger:
        for name in ("merged", "kept"):
            for schema in ("raw", "plain"):
                ledger.decisions.request_restate(f"{schema}.{name}", [day(2)], "recollect", who="a test")
    tiny.shop("UPDATE facts SET v = v + 5000 WHERE at < '2020-01-03' AND id % 3 = 0")
    run(tiny, 6)
    assert are_all_in_order(tiny)
    # files of the others were replaced one by one: by copies, which may join several
    assert {"/".join(Path(folder).parts[-2:]) for folder in copied} == {"plain/merged", "plain/kept"}
    with tiny.opened() as work:
        for name in ("raw.merged", "raw.kept"):
            rebuild_table(work, name, plan_rebuild(work, [name])[name])
    assert are_all_in_order(tiny)
    for name in ("merged", "kept"):
        rows = [tiny.rows(f"SELECT * FROM {schema}.{name} ORDER BY ALL") for schema in ("raw", "plain")]
        assert rows[0] == rows[1]


def test_a_column_that_no_row_has_stops_the_batch_and_names_the_nearest(spark: SparkSession, tmp_path: Path) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, 1)
    collect = "COLLECT raw.a FROM shop.facts EVERY DAY BY DATA TIME at APPEND SORT BY ({});"
    tiny.declare(collect.format("idd"))  # no run has recorded the columns for `check`
    [report] = tiny.run(day(2)).failed
    assert report.error is not None
    assert (report.error.code, report.error.fix) == ("E774", "did you mean id?")
    tiny.declare(collect.format("id"))
    with tiny.ledger() as ledger:
        ledger.decisions.retry("raw.a", [day(1)], who="a test")
    run(tiny, 2)
    assert all(is_in_order(path, ("id",)) for path in files_of(tiny, "raw.a"))
