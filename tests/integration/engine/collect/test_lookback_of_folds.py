"""LOOKBACK of MERGE and TEMPORAL tables: late rows go to their own windows, and tables that read them are updated."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CITIES = "id INTEGER, city TEXT, at TEXT"
FLOW = """
COLLECT dim.c (id BIGINT KEY, city STRING, at TIMESTAMP) FROM shop.c EVERY DAY BY DATA TIME at LOOKBACK 3 DAYS {mode};
TRANSFORM seen.c PARTITIONED AS SELECT {columns} FROM dim.c;
"""
TEMPORAL = FLOW.format(mode="TEMPORAL AT at", columns="id, city, rec_eff_time AS since, rec_is_current AS is_current")
FACTS = """
COLLECT fact.o PARTITIONED (o BIGINT KEY, c BIGINT REFERENCES dim.c AT t, t TIMESTAMP) FROM shop.o
  EVERY DAY BY DATA TIME t;
TRANSFORM mart.flat PARTITIONED {option} AS SELECT o, city FROM FLAT(fact.o);
"""


def merge(order: str) -> str:
    return FLOW.format(mode=f"MERGE {order}", columns="id, city")


def at(number: int, hour: int = 6) -> str:
    return f"2020-01-{number:02d} {hour:02d}:00:00"


def put(tiny: Tiny, *rows: tuple[int, str, str]) -> None:
    for number, city, when in rows:
        tiny.shop(f"INSERT INTO c VALUES ({number}, '{city}', '{when}')")


def seen(tiny: Tiny, number: int) -> list[tuple[object, ...]]:
    """Return the ids and cities that the label of a day read, as of its end."""
    return tiny.rows(f"SELECT id, city FROM seen.c WHERE timelabel = '{labels(number)[0]}' ORDER BY ALL")


def ran(tiny: Tiny, number: int) -> int:
    outcome = tiny.run(day(number, 1))
    assert not outcome.failed, described(outcome)
    return outcome.done


def orders(tiny: Tiny) -> None:
    tiny.source("o", "o INTEGER, c INTEGER, t TEXT", [(1, 1, at(2, 12)), (2, 1, at(3, 12))])


def test_a_late_version_restates_the_facts_that_read_it(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("c", CITIES, [(1, "Wien", at(1))])
    orders(tiny)
    tiny.declare(TEMPORAL + FACTS.format(option=""))
    ran(tiny, 4)
    assert tiny.rows("SELECT o, city FROM mart.flat ORDER BY o") == [(1, "Wien"), (2, "Wien")]

    put(tiny, (1, "Graz", at(2)))
    ran(tiny, 5)
    assert tiny.rows("SELECT o, city FROM mart.flat ORDER BY o") == [(1, "Graz"), (2, "Graz")]
    both = [(1, "Graz"), (1, "Wien")]
    assert [seen(tiny, number) for number in (1, 2, 4)] == [[(1, "Wien")], both, both]
    assert tiny.rows("SELECT id, city, timelabel FROM dim.c ORDER BY ALL") == [
        (1, "Graz", labels(2)[0]),
        (1, "Wien", labels(1)[0]),
    ]


def test_facts_that_only_report_a_restatement_stay_and_are_counted(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("c", CITIES, [(1, "Wien", at(1))])
    orders(tiny)
    tiny.declare(TEMPORAL + FACTS.format(option="ON RESTATE REPORT"))
    ran(tiny, 4)
    put(tiny, (1, "Graz", at(2)))
    ran(tiny, 5)
    assert tiny.rows("SELECT o, city FROM mart.flat ORDER BY o") == [(1, "Wien"), (2, "Wien")]
    with tiny.opened() as work:
        from waterclock.planner.planning import Planner

        plan = Planner(work.flow).plan(work.ledger.reads.snapshot(work.flow), day(5, 1))
    assert {name: len(found) for name, found in plan.reported.items()} == {"mart.flat": 2}


def test_versions_stay_that_the_source_has_replaced_since(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("c", CITIES, [(1, "Wien", at(1)), (2, "Linz", at(1))])
    tiny.declare(TEMPORAL)
    ran(tiny, 2)
    tiny.shop(f"UPDATE c SET city = 'Graz', at = '{at(2)}' WHERE id = 1")
    before = tiny.digests()
    ran(tiny, 3)
    ran(tiny, 4)
    after = tiny.digests()
    assert {key for key in before if after[key] != before[key]} == set(), "the window of the replaced row is unchanged"
    assert tiny.rows("SELECT id, city FROM dim.c ORDER BY ALL") == [(1, "Graz"), (1, "Wien"), (2, "Linz")]
    with tiny.ledger() as ledger:
        done = [row for row in ledger.past.rows("events") if (row["kind"], row["table"]) == ("done", "dim.c")]
    assert len(done) == 3, "unchanged windows get no new revision"


def test_of_one_key_and_time_the_source_counts(tmp_path: Path, spark: SparkSession) -> None:
    for name, flow in (("t", TEMPORAL), ("m", merge("ORDER BY at")), ("n", merge(""))):
        root = tmp_path / name
        root.mkdir()
        tiny = Tiny(root, spark)
        tiny.source("c", CITIES, [(1, "Wein", at(1)), (2, "Linz", at(1))])
        tiny.declare(flow)
        ran(tiny, 2)
        tiny.shop("UPDATE c SET city = 'Wien' WHERE id = 1")
        ran(tiny, 3)
        assert seen(tiny, 1) == seen(tiny, 2) == [(1, "Wien"), (2, "Linz")], name


def test_quarantined_rows_without_a_key_are_distinguished_by_their_content(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("c", CITIES, [(1, "Wien", at(1)), (None, "Graz", at(1)), (None, "Linz", at(1))])
    tiny.declare(
        "COLLECT dim.c (id BIGINT KEY ELSE QUARANTINE, city STRING, at TIMESTAMP) FROM shop.c EVERY DAY\n"
        "  BY DATA TIME at LOOKBACK 3 DAYS MERGE;"
    )
    ran(tiny, 2)
    tiny.source("c", CITIES, [(1, "Wien", at(1)), (7, "Graz", at(2)), (None, "Linz", at(1)), (None, "Enns", at(1))])
    ran(tiny, 3)
    aside = tiny.rows("SELECT get_json_object(row, '$.city') FROM dim.c_quarantine ORDER BY ALL")
    assert aside == [("Enns",), ("Graz",), ("Linz",)], "rows that the source has replaced are kept, each once"


@pytest.mark.parametrize("order", ["ORDER BY at", ""])
def test_a_late_row_of_a_merge_is_in_the_states_from_its_window_on_and_beats_no_newer_row(
    order: str, tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("c", CITIES, [(1, "Wien", at(1)), (2, "Linz", at(3))])
    tiny.declare(merge(order))
    ran(tiny, 4)
    put(tiny, (1, "Graz", at(2)), (2, "Enns", at(2)))
    assert ran(tiny, 5) == 4, "the 4th, the 2nd, and the states that read it, once each"
    assert [seen(tiny, number) for number in (1, 2, 3, 4)] == [
        [(1, "Wien")],
        [(1, "Graz"), (2, "Enns")],
        [(1, "Graz"), (2, "Linz")],
        [(1, "Graz"), (2, "Linz")],
    ]


def test_late_rows_of_several_windows_are_placed_in_one_commit_with_the_new_label(
    tmp_path: Path, spark: SparkSession
) -> None:
    for name, flow in (("t", TEMPORAL), ("m", merge("ORDER BY at DELETE WHEN city = 'gone'"))):
        root = tmp_path / name
        root.mkdir()
        tiny = Tiny(root, spark)
        tiny.source("c", CITIES, [(number, "Wien", at(1)) for number in range(5)])
        tiny.declare(flow)
        ran(tiny, 4)
        put(tiny, (1, "gone", at(1, 9)), (2, "Graz", at(2)), (2, "Linz", at(3)), (3, "Enns", at(4)))
        ran(tiny, 5)
        with tiny.ledger() as ledger:
            made = list(ledger.reads.slices("dim.c", day(1), day(5)))
        assert len({it.version for it in made}) == 1, name
        expected = [(0, "Wien"), (2, "Linz"), (3, "Enns"), (4, "Wien")]
        current = "" if name == "m" else "WHERE rec_is_current AND city <> 'gone'"
        assert tiny.rows(f"SELECT id, city FROM dim.c {current} ORDER BY ALL") == expected, name


def test_a_window_whose_slice_has_other_columns_stays_and_is_reported(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("c", CITIES + ", zip TEXT", [(1, "Wien", at(1), "1010")])
    tiny.declare(
        "COLLECT dim.c (id BIGINT KEY, at TIMESTAMP, *) FROM shop.c EVERY DAY BY DATA TIME at LOOKBACK 3 DAYS\n"
        "  MERGE ORDER BY at;"
    )
    ran(tiny, 2)
    tiny.source("c", CITIES, [(1, "Wien", at(1)), (2, "Graz", at(1)), (3, "Linz", at(2))])
    ran(tiny, 3)
    assert tiny.rows("SELECT id, city, zip FROM dim.c ORDER BY id") == [(1, "Wien", "1010"), (3, "Linz", None)]
    said = [it for it in tiny.heard.said_ if "late rows" in it]
    assert said == [f"dim.c: late rows of {labels(1)[0]} are not collected: the columns of the source have changed"]


@pytest.mark.parametrize("mode", ["TEMPORAL AT at", "MERGE ORDER BY at"])
def test_late_rows_that_a_held_batch_read_are_not_lost_and_nothing_else_is(
    mode: str, tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("c", CITIES, [(1, "Wien", at(1)), (2, "Linz", at(2))])
    tiny.declare(
        "COLLECT dim.c (id BIGINT KEY, city STRING, at TIMESTAMP) FROM shop.c EVERY DAY BY DATA TIME at\n"
        f"  LOOKBACK 1 DAY {mode} EXPECT count_if(city = 'bad') = 0 AS sane ELSE HOLD;"
    )
    ran(tiny, 3)
    put(tiny, (3, "bad", at(3)), (4, "Graz", at(2, 9)))
    tiny.shop(f"UPDATE c SET city = 'Enns', at = '{at(3)}' WHERE id = 2")
    tiny.run(day(4, 1))
    put(tiny, (5, "Wels", at(4)))
    tiny.run(day(5, 1))
    with tiny.ledger() as ledger:
        ledger.decisions.request_release("dim.c", [day(3)], who="ann", why="known")
    for number in (6, 7, 8):
        tiny.run(day(number, 2))
    found = tiny.rows("SELECT id, max_by(city, timelabel) FROM dim.c GROUP BY id ORDER BY id")
    assert found == [(1, "Wien"), (2, "Enns"), (3, "bad"), (4, "Graz"), (5, "Wels")]
    if mode.startswith("TEMPORAL"):
        assert (2, "Linz") in tiny.rows("SELECT id, city FROM dim.c"), "the version that the source replaced is kept"


def flow_for(mode: str) -> str:
    columns = "id, city, since" if mode == "temporal" else "id, city"
    said = "TEMPORAL AT at" if mode == "temporal" else "MERGE ORDER BY at"
    columns = "id, city, rec_eff_time AS since" if mode == "temporal" else columns
    return FLOW.format(mode=said, columns=columns)


class Said:
    """An oracle that stores, by window, all rows that the table was ever shown, by key and time."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[tuple[int, str], str]] = {}

    def look(self, source: Iterable[tuple[int, str, str]], newest: int) -> None:
        """Add the rows of the newest window and of the three windows before it."""
        for number in range(max(1, newest - 3), newest + 1):
            self.rows.setdefault(number, {})
        for key, city, when in source:
            number = int(when[8:10])
            if newest - 3 <= number <= newest:
                self.rows[number][key, when] = city

    def state(self, number: int, *, is_temporal: bool) -> list[tuple[int, str]]:
        """Return the versions, or the last cities, as of the end of a day."""
        rows = sorted((key, when, city) for each in self.rows for (key, when), city in self.rows[each].items()
                      if each <= number)  # fmt: skip
        if not is_temporal:
            return sorted({key: city for key, _, city in rows}.items())
        kept: list[tuple[int, str]] = []
        for key, _, city in rows:
            if not kept or kept[-1] != (key, city):
                kept.append((key, city))
        return sorted(kept)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["temporal", "merge"])
@pytest.mark.parametrize("seed", range(8))
def test_each_label_reads_the_rows_observed_up_to_its_tick(
    mode: str, seed: int, tmp_path: Path, spark: SparkSession
) -> None:
    random, said = Random(seed), Said()
    tiny = Tiny(tmp_path, spark)
    tiny.source("c", CITIES)
    tiny.declare(flow_for(mode))
    assert load_project(tiny.root, capabilities=capabilities()).flow.tables["dim.c"].is_fold
    source: dict[tuple[int, str], str] = {}
    for newest in range(1, 9):
        for _ in range(random.randint(0, 3)):
            number = max(1, newest - random.choice([0, 0, 1, 2, 3, 4]))
            key, when = random.randint(1, 3), at(number, random.randint(1, 23))
            if random.random() < 0.5:  # the source updates in place: the key's earlier row is lost
                source = {(known, then): city for (known, then), city in source.items() if known != key}
            source[key, when] = random.choice(["Wien", "Graz", "Linz"])
        tiny.source("c", CITIES, [(key, city, when) for (key, when), city in source.items()])
        ran(tiny, newest + 1)
        said.look([(key, city, when) for (key, when), city in source.items()], newest)
    for number in range(1, 9):
        assert seen(tiny, number) == said.state(number, is_temporal=mode == "temporal"), number
    current = tiny.rows("SELECT id, city FROM dim.c ORDER BY ALL")
    assert current == said.state(8, is_temporal=mode == "temporal")
