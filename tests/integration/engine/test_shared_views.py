"""SHARED views: read once for all tables that need them at a label, with the same rows as unshared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.engine.shared_rows import FOLDER, SharedRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT raw.orders PARTITIONED (id BIGINT, cents BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY
  START '2020-01-01' BY DATA TIME at;
CREATE VIEW w.items (id, cents, label) SHARED AS
  SELECT id, cents * 2 AS cents, TIMELABEL() AS label, at FROM raw.orders WHERE cents > 0;
TRANSFORM marts.orders PARTITIONED (id KEY, *) AS SELECT id, cents, label FROM w.items;
TRANSFORM marts.sums (label KEY, *) EVERY DAY MERGE AS SELECT sum(i.cents) AS cents, max(label) AS label FROM w.items i;
TRANSFORM marts.pairs PARTITIONED AS
  SELECT a.id, b.id AS other, {broken} AS n FROM w.items a JOIN w.items b ON a.id < b.id
  UNION ALL BY NAME SELECT id, count(*) AS n FROM w.items GROUP BY id;
"""
Shared = list[SharedRows]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Shared:
    """Return every cache of shared rows that a run has had."""
    kept: Shared = []
    real: Callable[..., None] = SharedRows.__init__

    def noted(self: SharedRows, *rest: Any) -> None:
        real(self, *rest)
        kept.append(self)

    monkeypatch.setattr(SharedRows, "__init__", noted)
    return kept


def project(folder: Path, spark: SparkSession, *, shared: bool, broken: str = "1L") -> Tiny:
    tiny = Tiny(folder, spark)
    rows = [(number, 100 * number - 200, f"2020-01-0{1 + number % 2} 09:00") for number in range(1, 8)]
    tiny.source("orders", "id INTEGER, cents INTEGER, at TEXT", rows)
    flow = FLOW.replace("{broken}", broken)
    tiny.declare(flow if shared else flow.replace(" SHARED", ""))
    return tiny


def test_one_scan_serves_all_readers_with_the_rows_of_an_unshared_view(
    tmp_path: Path, spark: SparkSession, made: Shared
) -> None:
    apart = project(tmp_path / "apart", spark, shared=False)
    outcome = apart.run(day(3))
    assert not outcome.failed, described(outcome)
    assert sum(each.made for each in made) == 0
    together = project(tmp_path / "together", spark, shared=True)
    outcome = together.run(day(3))
    assert not outcome.failed, described(outcome)
    assert (sum(each.made for each in made), sum(each.used for each in made)) == (2, 8)
    tables = ("marts.orders", "marts.sums", "marts.pairs")
    assert {key: digest for key, digest in together.digests().items() if key[0] in tables} == {
        key: digest for key, digest in apart.digests().items() if key[0] in tables
    }
    assert together.done("marts.pairs") == labels(1, 2)
    assert not list((together.root / ".waterclock" / FOLDER).glob("*")), "shared rows are removed with the run"


def test_a_failed_reader_or_an_unwritable_shared_view_stops_no_other_reader(
    tmp_path: Path, spark: SparkSession, made: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = project(tmp_path, spark, shared=True, broken="raise_error('no')")
    outcome = tiny.run(day(2))
    assert {report.group.table for report in outcome.failed} == {"marts.pairs"}
    assert tiny.done("marts.orders") == tiny.done("marts.sums") == labels(1)
    assert sum(each.made for each in made) == 1
    found = SharedRows.find_or_make

    def refused(self: SharedRows, keys: Sequence[str], make: object) -> object:
        def full(_: str, __: Sequence[str]) -> str:
            raise OSError(28, "No space left on device")

        del make
        return found(self, keys, full)

    monkeypatch.setattr(SharedRows, "find_or_make", refused)
    outcome = tiny.run(day(3))
    assert tiny.done("marts.orders") == tiny.done("marts.sums") == labels(1, 2)
    assert sum(each.made for each in made) == 1


@pytest.mark.parametrize(
    "is_called",
    [
        pytest.param(True, id="the view calls IS_PARTIAL()"),
        pytest.param(False, id="it does not", marks=pytest.mark.soak),
    ],
)
def test_readers_share_rows_only_if_is_partial_is_the_same_for_them(
    is_called: bool, tmp_path: Path, spark: SparkSession, made: Shared
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("u", "id INTEGER, at TEXT", [(1, "2020-01-01 01:00"), (2, "2020-01-02 01:00")])
    call = "IS_PARTIAL()" if is_called else "FALSE"
    tiny.declare(
        "COLLECT web.u PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.u EVERY DAY BY DATA TIME at;\n"
        f"CREATE VIEW web.v SHARED AS SELECT id, {call} AS part FROM UNTIL(web.u, '1 day') WHERE at < WINDOW_END();\n"
        "TRANSFORM web.last PARTITIONED EVERY DAY CLOSE WHEN count(*) > 99 PARTIAL AFTER 1 DAY AS\n"
        "  SELECT id, part FROM web.v;\n"
        "TRANSFORM web.whole PARTITIONED EVERY DAY CLOSE WHEN watermark(at) >= WINDOW_END() PARTIAL AFTER 1 DAY AS\n"
        "  SELECT id, part FROM web.v;"
    )
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert sum(each.used for each in made) == (0 if is_called else 1)
    assert tiny.rows("SELECT id, part FROM web.last") == [(1, is_called)]
    assert tiny.rows("SELECT id, part FROM web.whole") == [(1, False)]
