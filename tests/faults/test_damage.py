"""After damage in storage, a project returns correct results, or an error whose fix leads to correct results."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.damage import (
    CASES,
    DAMAGES,
    NOW,
    Heard,
    ask,
    file_of,
    folder_of,
    leaves_of,
    mend,
    mended,
    prepare,
    run,
    truncate,
)
from tests.tiny import Tiny, day, described
from waterclock.engine import run_opening
from waterclock.engine.maintenance.rebuild import plan_rebuild, rebuild_table
from waterclock.engine.spark.session import Sessions
from waterclock.errors import WaterclockError
from waterclock.storage.folds import merge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EARLIER = "2020-01-03"
# some kinds of fix; `bin/soak` damages everything in every way
QUICK = {
    ("shop.prices slice", "remove"),
    ("ledger", "flip"),
}


@dataclass(frozen=True)
class Made:
    """A project in a folder, with its rows before and after its last day."""

    tiny: Tiny
    before: Heard
    after: Heard
    earlier: Heard


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Made:
    root = tmp_path_factory.mktemp("damage")
    tiny = Tiny(root / "made", spark)
    prepare(tiny)
    whole = tiny.copied(root / "whole")
    assert not run(whole)
    return Made(tiny, ask(tiny), ask(whole), ask(whole, tick=EARLIER))


@pytest.fixture
def tiny(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tiny:
    monkeypatch.setattr(run_opening, "Sessions", lambda **_: Sessions.from_session(made.tiny.spark))
    return made.tiny.copied(tmp_path / "project")


def assert_answers(tiny: Tiny, made: Made) -> None:
    """Assert that the project returns the correct rows of today and of an earlier tick."""
    assert_right((ask(tiny), ask(tiny, tick=EARLIER)), made)


def assert_right(answers: tuple[Heard, Heard], made: Made, *, without: frozenset[str] = frozenset()) -> None:
    """Assert that the rows of today, and of an earlier tick except for some tables, are correct."""
    for found, wanted in zip(answers, (made.after, made.earlier), strict=True):
        assert not found.errors, "\n".join(error.render() for error in found.errors)
        for table, rows in wanted.rows.items():
            if wanted is made.after or table not in without:
                assert found.rows[table] == rows, table


def cases() -> list[object]:
    return [
        pytest.param(case, how, id=f"{case} {how}", marks=() if (case, how) in QUICK else pytest.mark.soak)
        for case in CASES
        for how in DAMAGES
    ]


@pytest.mark.parametrize(("case", "how"), cases())
def test_a_damaged_file_yields_right_rows_or_an_error_with_a_working_fix(
    tiny: Tiny, made: Made, case: str, how: str
) -> None:
    path = file_of(tiny, case)
    if path is None:
        pytest.skip("the table has no such file")
    DAMAGES[how](path)
    found = ask(tiny)
    for table, rows in found.rows.items():
        assert rows == made.before.rows[table], table
    mended(tiny, [*found.errors, *run(tiny)])
    answers = ask(tiny), ask(tiny, tick=EARLIER)
    if errors := [error for answer in answers for error in answer.errors]:
        mended(tiny, errors)
        answers = ask(tiny), ask(tiny, tick=EARLIER)
    # a lost older snapshot cannot be collected again: the next one stands for it, and is read instead
    is_lost = case in {"shop.lands slice", "shop.lands claim record"}
    lost = frozenset({"shop.lands", "marts.lands"}) if is_lost else frozenset()
    assert_right(answers, made, without=lost)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("table", ["shop.items", "shop.prices"])
def test_several_lost_slices_of_a_fold_are_made_again_one_after_the_other(tiny: Tiny, made: Made, table: str) -> None:
    for leaf in leaves_of(tiny, table)[:2]:
        shutil.rmtree(leaf)
    mend(tiny, f"recollect {table}@2020-01-01..2020-01-02")
    assert not run(tiny)
    assert_answers(tiny, made)


@pytest.fixture
def shows_its_slice(tmp_path: Path, spark: SparkSession) -> Tiny:
    """Return a project with a MERGE table that shows the damaged slice of its first day; the second day had no rows."""
    tiny = Tiny(tmp_path / "shows", spark)
    rows = [(1, 10, "2020-01-01 08:00:00"), (2, 20, "2020-01-01 09:00:00")]
    tiny.root.mkdir(exist_ok=True)
    tiny.source("changes", "id INT, price INT, at TEXT", rows)
    tiny.declare(
        "COLLECT shop.items (id BIGINT KEY, price BIGINT, at TIMESTAMP) FROM shop.changes EVERY DAY "
        "BY DATA TIME at MERGE ORDER BY at;"
    )
    for number in (2, 3):
        assert not tiny.run(day(number)).failed
    truncate(next(leaves_of(tiny, "shop.items")[0].glob("*.parquet")))
    return tiny


ITEMS = "SELECT id, price FROM shop.items ORDER BY id"


def recollect(tiny: Tiny) -> None:
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.items", [day(1)], "recollect", who="a test")
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)


def test_a_slice_that_a_merge_table_shows_is_replaced_by_the_same_rows(shows_its_slice: Tiny) -> None:
    with pytest.raises(WaterclockError, match="E752"):
        shows_its_slice.rows(ITEMS)
    recollect(shows_its_slice)
    assert shows_its_slice.rows(ITEMS) == [(1, 10), (2, 20)]


def test_a_damaged_visible_slice_that_is_not_current_is_reported_with_its_fix(
    shows_its_slice: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as before the fix: the same rows came again, and the shown state stayed broken
    with monkeypatch.context() as patch:
        patch.setattr(merge, "require_whole", lambda *_: None)
        recollect(shows_its_slice)
    with pytest.raises(WaterclockError, match=r"E753 a file of shop\.items is damaged") as told:
        shows_its_slice.rows(ITEMS)
    assert "waterclock rebuild shop.items" in (told.value.fix or "")
    with shows_its_slice.opened() as work:
        rebuild_table(work, "shop.items", plan_rebuild(work, ["shop.items"])["shop.items"])
    assert shows_its_slice.rows(ITEMS) == [(1, 10), (2, 20)]


def test_a_label_whose_source_rows_are_missing_can_be_skipped_and_this_is_recorded(tiny: Tiny) -> None:
    shutil.rmtree(leaves_of(tiny, "shop.prices")[1])
    tiny.shop("DELETE FROM changes WHERE at LIKE '2020-01-02%'")
    [error] = run(tiny)
    assert error.code == "E752"
    mend(tiny, "skip shop.prices 20200102000000 --why 'the disk was lost'")
    assert not run(tiny)
    prices = [price for (price,) in tiny.rows("SELECT price FROM shop.prices")]
    assert prices
    assert not [price for price in prices if price in {201, 202}]
    with tiny.ledger() as ledger:
        made_of = ledger.past.audit("shop.prices", day(2)).current
    assert made_of is not None
    assert made_of.revision is not None
    assert made_of.revision.source["given_up"]["rows"] == 2


@pytest.mark.soak
def test_a_label_by_arrival_that_is_given_up_is_made_again_from_the_archive(tiny: Tiny, made: Made) -> None:
    shutil.rmtree(leaves_of(tiny, "web.clicks")[0])
    assert run(tiny)
    mend(tiny, "skip web.clicks 20200101000000 --why 'the disk was lost'")
    assert not run(tiny)
    left = tiny.rows("SELECT id FROM web.clicks")
    mend(tiny, "recompute web.clicks@20200101000000")
    assert not run(tiny)
    assert len(left) < len(tiny.rows("SELECT id FROM web.clicks"))
    assert_answers(tiny, made)


def test_a_whole_label_is_not_given_up(tiny: Tiny) -> None:
    with pytest.raises(AssertionError):
        mend(tiny, "skip shop.prices 20200102000000 --why 'no reason'")
    with tiny.ledger() as ledger:
        assert not ledger.reads.snapshot(tiny.load().flow).of("shop.prices").requested


@pytest.mark.sampled(1)
@pytest.mark.parametrize("table", ["shop.orders", "marts.spent"])
def test_a_copy_that_was_put_back_is_noticed_before_anything_is_written(tiny: Tiny, made: Made, table: str) -> None:
    folder = folder_of(tiny, table)
    shutil.copytree(folder, tiny.root / "copy")
    assert not run(tiny)
    shutil.rmtree(folder)
    shutil.copytree(tiny.root / "copy", folder)
    tiny.source("lands", "land TEXT, tax INT", [("de", 19), ("fr", 20)])
    logged = sorted(path.name for path in (folder / "_delta_log").iterdir())
    with tiny.ledger() as ledger:
        claims = len([row for row in ledger.past.rows("events") if row["kind"] == "claimed" and row["table"] == table])
    assert "E754" in {error.code for error in ask(tiny).errors}
    later = tiny.run(day(6))
    assert {report.error.code for report in later.failed if report.error} == {"E754"}
    assert sorted(path.name for path in (folder / "_delta_log").iterdir()) == logged
    with tiny.ledger() as ledger:
        assert len([e for e in ledger.past.rows("events") if e["kind"] == "claimed" and e["table"] == table]) == claims
    mend(tiny, f"rebuild {table}")
    assert not run(tiny)
    found = ask(tiny, tick=NOW.isoformat())
    assert not found.errors
    assert found.rows[table] == made.after.rows[table]
