"""Tables are rebuilt from their stage: unchanged, or with another type, mode or key; digests stay the same."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.integration.engine.maintenance.test_ledger_rebuild import lose
from tests.integration.engine.maintenance.test_ledger_rebuild import rebuilt as ledger_rebuilt
from tests.tiny import Tiny, day, described
from tests.unit.cli.conftest import ask
from waterclock.engine.maintenance.rebuild import TableRebuildResult, plan_rebuild, rebuild_table
from waterclock.engine.reads.as_of import frame_as_of
from waterclock.engine.run_opening import apply_flow
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ITEMS = (
    "COLLECT shop.items (id INT KEY, at TIMESTAMP, price INT, gone BOOLEAN) FROM shop.items EVERY DAY BY DATA TIME at"
)
REST = """
TRANSFORM marts.latest AS SELECT count(*) AS n, sum(price) AS total FROM shop.items;
TRANSFORM marts.days PARTITIONED AS SELECT count(*) AS n FROM shop.items;
COLLECT shop.rows (id INT, at TIMESTAMP) FROM shop.items EVERY DAY BY DATA TIME at APPEND;
"""
MERGED = f"{ITEMS} MERGE ORDER BY at DELETE WHEN gone;{REST}"
APPENDED = f"{ITEMS.replace(' KEY', '')} APPEND;{REST}"
ROWS = [
    (1, "2020-01-01 10:00:00", 10, 0),
    (2, "2020-01-01 11:00:00", 20, 0),
    (1, "2020-01-02 10:00:00", 11, 0),
    (2, "2020-01-03 10:00:00", 20, 1),
    (3, "2020-01-03 11:00:00", 30, 0),
]


@pytest.fixture(scope="module")
def appended(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("appended"), spark)
    tiny.source("items", "id INT, at TEXT, price INT, gone BOOLEAN", ROWS)
    tiny.declare(APPENDED)
    for of_day in (2, 3, 4):
        outcome = tiny.run(day(of_day))
        assert not outcome.failed, described(outcome)
    return tiny


@pytest.fixture
def tiny(appended: Tiny, tmp_path: Path) -> Tiny:
    shutil.copytree(appended.root, tmp_path / "project")
    return Tiny(tmp_path / "project", appended.spark)


def rebuild(tiny: Tiny, *names: str) -> list[TableRebuildResult]:
    with tiny.opened() as work:
        changes = plan_rebuild(work, names)
        found = [rebuild_table(work, name, changes[name]) for name in names]
        apply_flow(work, day(4))
    return found


def rows(tiny: Tiny, name: str) -> list[tuple[Any, ...]]:
    return tiny.rows(f"SELECT * EXCEPT (timelabel) FROM {name} ORDER BY ALL")


def layout(tiny: Tiny, name: str) -> list[str]:
    table = DeltaTable(str(tiny.root / tiny.storage / "tables" / name.replace(".", "/")))
    assert table.metadata().configuration["waterclock.project"] == "tiny"
    return list(table.metadata().partition_columns)


def test_a_table_that_was_spoilt_is_made_again_of_its_slices(tiny: Tiny) -> None:
    before, digests = rows(tiny, "shop.items"), tiny.digests()
    folder = tiny.root / tiny.storage / "tables/shop/items"
    tiny.spark.sql(f"DELETE FROM delta.`{folder}` WHERE id = 1").collect()
    assert rows(tiny, "shop.items") != before
    [found] = rebuild(tiny, "shop.items")
    assert (found.slices, found.rows, found.changed) == (3, 5, ())
    assert rows(tiny, "shop.items") == before
    assert tiny.digests() == digests
    assert tiny.run(day(4)).done == 0  # no batch is stale: its content is unchanged


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["shop.items", "marts.days", "marts.latest"])
def test_a_table_whose_log_is_lost_is_made_again_of_its_stage(tiny: Tiny, name: str) -> None:
    before, digests = rows(tiny, name), tiny.digests()
    with tiny.ledger() as ledger:
        head = ledger.reads.table(name).head_version
    shutil.rmtree(tiny.root / tiny.storage / "tables" / name.replace(".", "/") / "_delta_log")
    [found] = rebuild(tiny, name)
    assert found.version > head
    assert (rows(tiny, name), tiny.digests()) == (before, digests)
    tiny.shop("INSERT INTO items VALUES (4, '2020-01-04 10:00:00', 1, 0)")
    outcome = tiny.run(day(5))
    assert not outcome.failed, described(outcome)
    assert rows(tiny, name) != before


def test_a_table_that_is_as_its_slices_say_is_left_so(tiny: Tiny) -> None:
    [first] = rebuild(tiny, "shop.items")
    [second] = rebuild(tiny, "shop.items")
    assert first.version == second.version


def test_a_declaration_that_needs_it_stops_its_table_and_readers_until_it_is_rebuilt(tiny: Tiny) -> None:
    tiny.declare(MERGED)
    tiny.shop("INSERT INTO items VALUES (4, '2020-01-04 10:00:00', 40, 0)")
    outcome = tiny.run(day(5))
    [report] = outcome.failed
    assert report.error is not None
    assert (report.group.table, report.error.code) == ("shop.items", "E405")
    assert "waterclock rebuild shop.items" in str(report.error.fix)
    assert outcome.done == 1  # of shop.rows, which does not read it
    assert outcome.plan is not None
    assert {(batch.table, str(batch.status)) for batch in outcome.plan.batches} == {
        (name, "blocked") for name in ("shop.items", "marts.latest", "marts.days")
    }
    rebuild(tiny, "shop.items")
    outcome = tiny.run(day(5))
    assert not outcome.failed, described(outcome)
    assert rows(tiny, "marts.latest") == [(3, 81)]


def test_keys_or_a_time_that_older_rows_have_no_column_for_are_refused_before_anything_changes(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    plain = "COLLECT shop.stock (sku KEY, *) FROM shop.stock EVERY DAY TEMPORAL;"
    tiny.declare(plain)
    tiny.source("stock", "sku TEXT, colour TEXT", [("a", "red")])
    assert not tiny.run(day(2)).failed
    before = tiny.rows("SELECT * FROM shop.stock")
    tiny.source("stock", "sku TEXT, colour TEXT, since TEXT", [("a", "green", "2020-01-02 09:00:00")])
    tiny.declare(
        "COLLECT shop.stock (sku KEY, since TIMESTAMP, *) FROM shop.stock EVERY DAY BY DATA TIME since "
        "TEMPORAL AT since;"
    )
    for selection in (["shop.stock"], ["--all"]):
        found = ask("rebuild", *selection, "--yes", "--project", str(tiny.root))
        assert found.exit_code == 1
        assert "E432 a rebuild cannot change shop.stock in this way" in found.output
        assert "the rows of 20200101000000 have no column since" in " ".join(found.output.split())
    assert tiny.rows("SELECT * FROM shop.stock") == before
    tiny.declare(plain)
    assert tiny.run(day(3)).done == 1


@pytest.mark.parametrize("mode", ["MERGE", "TEMPORAL AT at"])
def test_rows_are_deleted_by_a_column_that_is_newer_than_all_slices(
    tmp_path: Path, spark: SparkSession, mode: str
) -> None:
    tiny = Tiny(tmp_path, spark)
    plain = f"COLLECT shop.stock (sku STRING KEY, at TIMESTAMP) FROM shop.stock EVERY DAY BY DATA TIME at {mode};"
    tiny.declare(plain)
    tiny.source("stock", "sku TEXT, at TEXT", [("a", "2020-01-01 10:00:00"), ("b", "2020-01-01 10:00:00")])
    assert not tiny.run(day(2)).failed
    tiny.declare(plain.replace("TIMESTAMP)", "TIMESTAMP, gone INT)").replace(mode, f"{mode} DELETE WHEN gone = 1"))
    rebuild(tiny, "shop.stock")
    current = " WHERE rec_is_current" if mode.startswith("TEMPORAL") else ""
    assert tiny.rows(f"SELECT sku FROM shop.stock{current} ORDER BY ALL") == [("a",), ("b",)]
    tiny.source("stock", "sku TEXT, at TEXT, gone INT", [("a", "2020-01-04 10:00:00", 1)])
    outcome = tiny.run(day(5))
    assert not outcome.failed, described(outcome)
    assert tiny.rows(f"SELECT sku FROM shop.stock{current}") == [("b",)]


def test_the_newest_label_is_made_again_with_a_column_by_which_rows_are_deleted(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    plain = "COLLECT shop.stock (sku STRING KEY, at TIMESTAMP) FROM shop.stock EVERY DAY BY DATA TIME at MERGE;"
    tiny.declare(plain)
    tiny.source("stock", "sku TEXT, at TEXT", [(sku, "2020-01-01 10:00:00") for sku in "abc"])
    assert not tiny.run(day(2)).failed
    tiny.declare(
        plain.replace("TIMESTAMP)", "TIMESTAMP, n INT, gone INT)").replace(
            "MERGE", "MERGE ORDER BY n DELETE WHEN gone = 1"
        )
    )
    again = [("a", "2020-01-01 10:00:00", 1, 1), ("b", "2020-01-01 10:00:00", 1, 0)]
    tiny.source("stock", "sku TEXT, at TEXT, n INT, gone INT", again)
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.stock", [day(1)], "recollect", who="ann")
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT sku, n FROM shop.stock") == [("b", 1)]


@pytest.mark.parametrize("mode", ["MERGE ORDER BY at", "APPEND"])
def test_a_table_that_kept_versions_has_all_columns_of_its_rows_in_another_mode(
    tmp_path: Path, spark: SparkSession, mode: str
) -> None:
    tiny = Tiny(tmp_path, spark)
    plain = "COLLECT shop.stock (sku STRING KEY, at TIMESTAMP, n INT) FROM shop.stock EVERY DAY BY DATA TIME at "
    tiny.declare(f"{plain}TEMPORAL AT at;")
    tiny.source("stock", "sku TEXT, at TEXT, n INT", [("a", f"2020-01-01 1{hour}:00:00", hour) for hour in (1, 2)])
    assert not tiny.run(day(2)).failed
    tiny.declare(f"{plain}{mode};" if mode.startswith("MERGE") else f"{plain}{mode};".replace(" KEY", ""))
    rebuild(tiny, "shop.stock")
    kept = (2,) if mode.startswith("MERGE") else (1, 2)
    assert tiny.rows("SELECT sku, hour(at), n FROM shop.stock ORDER BY n") == [("a", 10 + n, n) for n in kept]


def test_an_append_becomes_a_merge_and_its_readers_follow(tiny: Tiny) -> None:
    tiny.declare(MERGED)
    digests = tiny.digests()
    [found] = rebuild(tiny, "shop.items")
    assert {what for what, _, _ in found.changed} == {"mode", "keys"}
    assert [(row[0], row[2]) for row in rows(tiny, "shop.items")] == [(1, 11), (3, 30)]
    assert tiny.digests() == digests
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert rows(tiny, "marts.latest") == [(2, 41)]
    # a replayed change that is older than a delete in the slices does not restore the row
    tiny.shop("INSERT INTO items VALUES (2, '2020-01-04 09:00:00', 22, 0), (1, '2020-01-04 10:00:00', 12, 0)")
    outcome = tiny.run(day(5))
    assert not outcome.failed, described(outcome)
    assert [(row[0], row[2]) for row in rows(tiny, "shop.items")] == [(1, 12), (2, 22), (3, 30)]
    with tiny.opened() as work:
        state = frame_as_of(work, work.sessions.own(), work.flow.tables["shop.items"], day(3))
        assert sorted((row["id"], row["price"]) for row in state.collect()) == [(1, 11), (2, 20)]


def test_another_order_is_used_from_the_next_batch_on_and_deletes_still_beat_rows_below_them(tiny: Tiny) -> None:
    tiny.declare(MERGED)
    rebuild(tiny, "shop.items")
    tiny.declare(MERGED.replace("ORDER BY at", "ORDER BY price"))
    tiny.shop("INSERT INTO items VALUES (2, '2020-01-04 09:00:00', 15, 0), (1, '2020-01-04 10:00:00', 12, 0)")
    outcome = tiny.run(day(5))  # regression: a price was a TypeError when compared with the times of older manifests
    assert not outcome.failed, described(outcome)
    assert [(row[0], row[2]) for row in rows(tiny, "shop.items")] == [(1, 12), (3, 30)]


def test_a_merge_rebuilt_with_another_delete_gives_other_rows_and_its_readers_follow(tiny: Tiny) -> None:
    tiny.declare(MERGED)
    rebuild(tiny, "shop.items")
    assert not tiny.run(day(4)).failed
    assert rows(tiny, "marts.latest") == [(2, 41)]
    tiny.declare(MERGED.replace(" DELETE WHEN gone", ""))
    [found] = rebuild(tiny, "shop.items")
    assert found.changed == ()
    assert [(row[0], row[2]) for row in rows(tiny, "shop.items")] == [(1, 11), (2, 20), (3, 30)]
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert rows(tiny, "marts.latest") == [(3, 61)]
    [again] = rebuild(tiny, "shop.items")
    assert tiny.run(day(4)).done == 0
    assert again.rows == found.rows


@pytest.mark.parametrize("change", ["function", "hidden"])
def test_versions_rebuilt_with_another_function_or_hidden_column_are_read_by_their_readers(
    tmp_path: Path, spark: SparkSession, change: str
) -> None:
    tiny = Tiny(tmp_path, spark)
    total = "SELECT count(*) AS versions, sum(n) AS total FROM shop.stock"
    declared = f"""
CREATE FUNCTION is_gone(state INT) RETURNS BOOLEAN RETURN state = 1;
COLLECT shop.stock (sku STRING KEY, at TIMESTAMP, n INT, state INT) FROM shop.stock EVERY DAY BY DATA TIME at
  TEMPORAL AT at DELETE WHEN is_gone(state);
TRANSFORM marts.versions AS {total};
"""
    other = {"function": ("state = 1", "state = 2"), "hidden": (" n INT,", " n INT HIDDEN,")}
    changes = [("a", f"2020-01-01 1{n}:00:00", n, state) for n, state in enumerate((0, 0, 1, 2))]
    tiny.source("stock", "sku TEXT, at TEXT, n INT, state INT", changes)
    tiny.declare(declared)
    assert not tiny.run(day(2)).failed
    before = rows(tiny, "marts.versions")
    tiny.declare(declared.replace(*other[change]))
    [found] = rebuild(tiny, "shop.stock")
    assert found.changed == ()
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert rows(tiny, "marts.versions") == tiny.rows(total) != before
    [again] = rebuild(tiny, "shop.stock")
    assert tiny.run(day(2)).done == 0
    assert again.rows == found.rows


def test_a_merge_becomes_an_append_again(tiny: Tiny) -> None:
    before = rows(tiny, "shop.items")
    tiny.declare(MERGED)
    rebuild(tiny, "shop.items")
    tiny.declare(APPENDED)
    rebuild(tiny, "shop.items")
    assert rows(tiny, "shop.items") == before
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)


@pytest.mark.soak
def test_a_regular_table_becomes_a_partitioned_one_and_back(tiny: Tiny) -> None:
    before, digests = rows(tiny, "shop.rows"), tiny.digests()
    tiny.declare(APPENDED.replace("shop.rows (id", "shop.rows PARTITIONED (id"))
    [found] = rebuild(tiny, "shop.rows")
    assert found.changed == (("type", "regular", "partitioned"),)
    assert layout(tiny, "shop.rows") == ["timelabel"]
    assert (rows(tiny, "shop.rows"), tiny.digests()) == (before, digests)
    tiny.shop("INSERT INTO items VALUES (4, '2020-01-04 10:00:00', 1, 0)")
    outcome = tiny.run(day(5))
    assert not outcome.failed, described(outcome)
    assert len(rows(tiny, "shop.rows")) == 6
    tiny.declare(APPENDED)
    rebuild(tiny, "shop.rows")
    assert layout(tiny, "shop.rows") == []
    assert len(rows(tiny, "shop.rows")) == 6


def test_a_rebuild_of_single_tables_refuses_a_changed_cadence(tiny: Tiny) -> None:
    tiny.declare(APPENDED.replace("EVERY DAY", "EVERY HOUR"))
    with tiny.opened() as work, pytest.raises(WaterclockError) as refused:
        plan_rebuild(work, ["shop.items", "shop.rows", "marts.latest", "marts.days"])
    assert "E420" in refused.value.render()


def test_a_table_with_a_running_batch_is_left_alone(tiny: Tiny) -> None:
    with tiny.opened() as work:
        tiny.claim(work, "shop.items", 9)
        with pytest.raises(WaterclockError, match="claimed by another") as refused:
            plan_rebuild(work, ["shop.items"])
    assert refused.value.code == "E407"


def test_a_ledger_that_is_lost_after_a_rebuild_knows_its_revisions(tiny: Tiny) -> None:
    tiny.declare(MERGED)
    rebuild(tiny, "shop.items")
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    with tiny.ledger() as ledger:
        before = [
            (piece.label, piece.claim, piece.digest) for piece in ledger.reads.slices("shop.items", day(1), day(9))
        ]
        versions = ledger.reads.versions("shop.items")
    lose(tiny)
    ledger_rebuilt(tiny)
    with tiny.ledger() as ledger:
        assert [
            (piece.label, piece.claim, piece.digest) for piece in ledger.reads.slices("shop.items", day(1), day(9))
        ] == before
        assert ledger.reads.versions("shop.items") == versions
