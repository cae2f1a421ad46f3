"""CLUSTER BY and PARTITION BY in whole runs: labels are split by values, and nothing else changes."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.tiny import Tiny, day, described
from waterclock.engine.maintenance.maintain import find_maintenance, maintain_table
from waterclock.storage.slices import clustering

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
COLLECT = "COLLECT {}.{} (id BIGINT{}, v BIGINT, at TIMESTAMP) FROM shop.facts EVERY DAY BY DATA TIME at {};\n"
STATEMENTS = {
    "parts": COLLECT.format("{0}", "parts PARTITIONED", "", "EXPECT v % 10 <> 3 AS no_three ELSE QUARANTINE {1}"),
    "sums": "TRANSFORM {0}.sums PARTITIONED {1} AS SELECT id, sum(v) AS v FROM {0}.parts GROUP BY id;\n",
    "kinds": "TRANSFORM {0}.kinds PARTITIONED {1} AS SELECT nullif(id % 5, 0) AS kind, v FROM {0}.parts;\n",
}
CLUSTERED = {"parts": "CLUSTER BY (v)", "sums": "CLUSTER BY (v)", "kinds": "PARTITION BY (kind) SORT BY (v)"}


@pytest.fixture(autouse=True)
def tiny_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each label large enough to be split, because no file is smaller than twice the target."""
    monkeypatch.setattr(clustering, "TARGET_BYTES", 400)


def flow(schema: str, by: dict[str, str]) -> str:
    return "".join(text.format(schema, by.get(name, "")) for name, text in STATEMENTS.items())


def fill(tiny: Tiny, *days: int) -> None:
    chance = random.Random(7)
    rows = [
        (key, chance.randint(1, 1000), f"2020-01-{number:02d} {key % 24:02d}:00:00")
        for number in range(1, 9)
        for key in chance.sample(range(300), 200)
        if number in days
    ]
    tiny.source("facts", "id INTEGER, v INTEGER, at TEXT", rows)


def run(tiny: Tiny, number: int) -> None:
    outcome = tiny.run(day(number))
    assert not outcome.failed, described(outcome)


def values(tiny: Tiny, table: str, column: str, label: int) -> list[list[int]]:
    """Return the values of a column in each file of a label, in the order of the file."""
    folder = tiny.root / tiny.storage / "tables" / table.replace(".", "/")
    found = []
    for uri in DeltaTable(folder).file_uris():
        rows = pq.read_table(folder / uri, columns=["timelabel", column], partitioning=None).to_pydict()
        if rows["timelabel"][0].startswith(f"202001{label:02d}"):
            found.append(rows[column])
    return sorted(found, key=lambda rows: [-1 if value is None else value for value in rows])


def is_split(tiny: Tiny, table: str, label: int, column: str = "v") -> bool:
    found = values(tiny, table, column, label)
    are_apart = all(one[-1] < other[0] for one, other in pairwise(found))
    return len(found) > 1 and are_apart and all(rows == sorted(rows) for rows in found)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return two days in one group of labels, and a third alone."""
    tiny = Tiny(tmp_path_factory.mktemp("clustered"), spark)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clustering, "TARGET_BYTES", 400)
        tiny.declare(flow("raw", CLUSTERED) + flow("plain", {}))
        for last in (2, 3):
            fill(tiny, *range(1, last + 1))
            run(tiny, last + 1)
    return tiny


def are_same(tiny: Tiny) -> bool:
    digests = tiny.digests()
    same = all(digest == digests[table.replace("raw.", "plain."), label] for (table, label), digest in digests.items())
    rows = [
        [tiny.rows(f"SELECT * FROM {schema}.{name} ORDER BY ALL") for name in STATEMENTS] for schema in ("raw", "plain")
    ]
    return same and rows[0] == rows[1] and all(rows[0])


def test_labels_are_split_and_rows_and_digests_are_those_without_it(lived: Tiny) -> None:
    for label in (1, 2, 3):
        assert is_split(lived, "raw.parts", label)
        assert is_split(lived, "raw.sums", label)
        assert not is_split(lived, "plain.parts", label)
    assert are_same(lived)


def test_a_search_for_a_value_of_partition_by_opens_its_file_of_each_label(lived: Tiny, spark: SparkSession) -> None:
    for label in (1, 2, 3):
        assert [len(set(kinds)) for kinds in values(lived, "raw.kinds", "kind", label)] == [1] * 5
        assert all(found == sorted(found) for found in values(lived, "raw.kinds", "v", label))
    folder = str(lived.root / lived.storage / "tables" / "raw" / "kinds")
    for kind, files in (("= 3", 3), ("> 2", 6), ("IS NULL", 3), ("> 7", 0)):
        frame = spark.read.format("delta").load(folder).where(f"kind {kind}")
        frame.collect()
        scan = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
        assert (scan.metrics().apply("numFiles").value() if files else 0) == files
    of_delta_rs = DeltaTable(folder).to_pyarrow_dataset()
    assert len(list(of_delta_rs.get_fragments(ds.field("kind") == 3))) == 3


def test_other_columns_make_no_batch_again_and_old_labels_are_right_after_maintain(lived: Tiny, tmp_path: Path) -> None:
    tiny = lived.copied(tmp_path / "copy")
    made = {name: tiny.runs_of(f"raw.{name}") for name in STATEMENTS}
    others = CLUSTERED | {"parts": "CLUSTER BY (id)", "sums": "", "kinds": "PARTITION BY (v)"}
    tiny.declare(flow("raw", others) + flow("plain", {}))
    run(tiny, 4)
    assert {name: tiny.runs_of(f"raw.{name}") for name in STATEMENTS} == made
    with tiny.opened() as work:
        for each in find_maintenance(work, [f"raw.{name}" for name in STATEMENTS], datetime(2021, 1, 1, tzinfo=UTC)):
            maintain_table(work, each, datetime(2021, 1, 1, tzinfo=UTC))
    with tiny.ledger() as ledger:
        for schema in ("raw", "plain"):
            ledger.decisions.request_restate(f"{schema}.parts", [day(2)], "recollect", who="a test")
    tiny.shop("UPDATE facts SET v = v + 5000 WHERE at < '2020-01-03' AND id % 3 = 0")
    run(tiny, 4)
    assert is_split(tiny, "raw.parts", 2, "id")
    assert not is_split(tiny, "raw.parts", 3)  # its small files were joined
    assert are_same(tiny)


def test_a_column_that_no_row_has_stops_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, 1)
    collect = "COLLECT raw.a FROM shop.facts EVERY DAY BY DATA TIME at APPEND CLUSTER BY ({});"
    tiny.declare(collect.format("idd"))  # no run has recorded the columns for `check`
    [report] = tiny.run(day(2)).failed
    assert report.error is not None
    assert (report.error.code, report.error.fix) == ("E774", "did you mean id?")
