"""Reasons for a different label: `diff --why` on ledgers written directly. No Spark is started."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.cli.commands.test_diff import copy_to_prod
from tests.unit.cli.conftest import Shop, day, texts
from waterclock.cli.exit_codes import ExitCode
from waterclock.operations.project_opening import open_project

TABLE, LABEL = "sales.by_country", "sales.by_country@2024-11-18"


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr("waterclock.engine.spark.session.Sessions.own", refuse)


@pytest.fixture
def restated(shop: Shop) -> Shop:
    """Return a shop whose `prod` has two days; in `dev`, the orders of one were recollected, and differ."""
    shop.done("shop.customers", 19)
    shop.done("shop.orders", 17, 18)
    shop.done(TABLE, 17, 18)
    copy_to_prod(shop)
    shop.ledger.decisions.request_restate(
        "shop.orders", [day(18)], "recollect", who="bea", why="`a` <b>\x1b[31m", command="recollect"
    )
    shop.done("shop.orders", 18, rows=12, version=40)
    shop.done(TABLE, 18, rows=11, version=41)
    return shop


@pytest.mark.parametrize("against", [(), ("--against", "prod")])
def test_a_source_is_found_below_a_label_with_the_request(restated: Shop, against: tuple[str, ...]) -> None:
    asked = restated.ask("diff", LABEL, "--why", *against, width=160)
    assert asked.exit_code == ExitCode.DIFFERENT
    assert f"{LABEL}  differs; 10 rows before, 11 after" in asked.stdout
    assert "shop.orders@2024-11-18  source shop.orders; recollect by bea: `a` <b>\\x1b[31m" in asked.stdout
    assert "2 batches compared, without reading rows." in asked.stdout
    answer = restated.json("diff", LABEL, "--why", *against)
    assert (answer["label"], answer["differing"], answer["is_complete"]) == (texts([day(18)])[0], 1, True)
    [cause] = answer["causes"]
    assert (cause["kind"], cause["table"], cause["labels"]) == ("source", "shop.orders", texts([day(18)]))
    assert cause["path"] == [{"table": TABLE, "label": texts([day(18)])[0]}]
    assert (cause["before"]["rows"], cause["after"]["rows"]) == (10, 12)


@pytest.mark.parametrize("width", [80, 60])
def test_a_narrow_terminal_shows_every_column(restated: Shop, width: int) -> None:
    shown = restated.ask("diff", LABEL, "--why", width=width).stdout
    words = " ".join(shown.split())
    assert all(name in words.split() for name in ("what", "made", "through"))
    assert "source" in words
    assert "recollect" in words
    assert "shop.orders@2024-11-18" in words
    assert max(map(len, shown.split("\n\n")[1].splitlines())) <= width


def test_markdown_is_escaped(restated: Shop) -> None:
    asked = restated.ask("diff", LABEL, "--why", "--markdown")
    assert "### sales.by\\_country" in asked.stdout
    assert "recollect by bea: \\`a\\` \\<b\\>\\\\x1b\\[31m |" in asked.stdout


def test_the_oldest_label_that_differs_is_explained(restated: Shop) -> None:
    restated.done("shop.orders", 17, rows=14, version=42)
    restated.done(TABLE, 17, rows=13, version=43)
    asked = restated.ask("diff", TABLE, "--why", "--against", "prod", width=160)
    assert "sales.by_country@2024-11-17  differs" in asked.stdout
    assert "2 labels differ; this is the oldest" in asked.stdout
    assert restated.json("diff", LABEL, "--why", "--against", "prod")["differing"] == 1


def test_changed_code_is_named_without_parts_if_its_statement_is_not_recorded(shop: Shop) -> None:
    shop.done("shop.customers", 19)
    shop.done("shop.orders", 18)
    shop.done(TABLE, 18)
    copy_to_prod(shop)
    flow = shop.folder / "flows" / "2_transform.dpl"
    text = flow.read_text(encoding="utf-8")
    assert "count(*)" in text
    flow.write_text(text.replace("count(*)", "count(*) + 1"), encoding="utf-8")
    changed = replace(shop, project=open_project(shop.folder, None))
    changed.ledger.declared.apply(changed.project.flow, who="ann", now=day(20), runner="desk:1")
    changed.done(TABLE, 18, rows=11)
    for against in ((), ("--against", "prod")):
        [cause] = shop.json("diff", LABEL, "--why", *against)["causes"]
        assert (cause["kind"], cause["table"], cause["parts"], cause["path"]) == ("code", TABLE, [], [])
    assert f"{LABEL}  code  " in shop.ask("diff", LABEL, "--why", width=160).stdout


def test_an_input_that_one_side_did_not_have_is_named(shop: Shop) -> None:
    shop.done("shop.customers", 19)
    shop.done("shop.orders", 18)
    shop.done(TABLE, 18)
    copy_to_prod(shop)
    with closing(sqlite3.connect(shop.folder / ".prod" / shop.ledger_file.name)) as database, database:
        database.execute("UPDATE inputs SET content = '0.0' WHERE table_name = 'shop.orders' AND reader = ?", [TABLE])
        database.execute("DELETE FROM revisions WHERE table_name = 'shop.orders'")
    shop.done(TABLE, 18, rows=11)
    [cause] = shop.json("diff", LABEL, "--why", "--against", "prod")["causes"]
    assert (cause["kind"], cause["table"], cause["before"]) == ("missing", "shop.orders", None)
    assert "shop.orders@2024-11-18  only in dev" in shop.ask("diff", LABEL, "--why", "--against", "prod").stdout


def test_equal_code_and_inputs_leave_the_rows(shop: Shop) -> None:
    shop.done("shop.customers", 19)
    shop.done("shop.orders", 18)
    shop.done(TABLE, 18)
    shop.done(TABLE, 18, rows=11)
    asked = shop.ask("diff", LABEL, "--why", width=160)
    assert "other rows, although code and inputs are equal; recompute by ann" in asked.stdout
    assert [each["kind"] for each in shop.json("diff", LABEL, "--why")["causes"]] == ["rows"]


def test_a_revert_is_named_with_its_reason(shop: Shop) -> None:
    shop.done("shop.orders", 18)
    shop.done("shop.orders", 18, rows=12, version=41)
    shop.done("shop.orders", 18, version=42, reverted={"by": "bea", "why": "too early"})
    asked = shop.ask("diff", "shop.orders@2024-11-18", "--why", width=160)
    assert "revert by bea: too early" in asked.stdout
    [cause] = shop.json("diff", "shop.orders@2024-11-18", "--why")["causes"]
    assert (cause["kind"], cause["request"]) == ("revert", {"what": "revert", "by": "bea", "why": "too early"})


def test_rows_that_the_trail_has_lost_are_reported(shop: Shop) -> None:
    shop.done("shop.customers", 19)
    shop.done("shop.orders", 18)
    shop.done(TABLE, 18)
    copy_to_prod(shop)
    with closing(sqlite3.connect(shop.folder / ".prod" / shop.ledger_file.name)) as database, database:
        database.execute("UPDATE inputs SET content = '1.2' WHERE table_name = 'shop.orders' AND reader = ?", [TABLE])
    shop.done(TABLE, 18, rows=11)
    assert [it["kind"] for it in shop.json("diff", LABEL, "--why", "--against", "prod")["causes"]] == ["unknown"]


def test_a_label_that_only_one_side_has_is_reported(shop: Shop) -> None:
    shop.done(TABLE, 17)
    copy_to_prod(shop)
    shop.done(TABLE, 18)
    asked = shop.ask("diff", LABEL, "--why", "--against", "prod")
    assert (asked.exit_code, "only in dev" in asked.stdout) == (ExitCode.DIFFERENT, True)
    assert shop.json("diff", TABLE, "--why", "--against", "prod")["causes"][0]["kind"] == "missing"


def test_equal_labels_have_no_cause(shop: Shop) -> None:
    shop.done(TABLE, 17, 18)
    copy_to_prod(shop)
    asked = shop.ask("diff", TABLE, "--why", "--against", "prod")
    assert (asked.exit_code, "equal" in asked.stdout) == (ExitCode.DONE, True)
    answer = shop.json("diff", TABLE, "--why", "--against", "prod")
    assert (answer["differs"], answer["equal"], answer["causes"]) == (False, 2, [])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((TABLE,), "E516"),
        (("shop.orders",), "E516"),
        (("sales.*", "shop.orders"), "E515"),
        (("out.by_country",), "E706"),
        ((TABLE, "--against", "prd"), "E243"),
    ],
)
def test_explanations_that_are_not_possible_are_refused(shop: Shop, arguments: tuple[str, ...], code: str) -> None:
    shop.done(TABLE, 17)
    asked = shop.ask("diff", *arguments, "--why")
    assert asked.exit_code == ExitCode.FAILED
    assert code in asked.stderr


@pytest.mark.parametrize("arguments", [("--all",), (TABLE, "--user", "eve")])
def test_options_that_exclude_it_are_refused(shop: Shop, arguments: tuple[str, ...]) -> None:
    asked = shop.ask("diff", *arguments, "--why")
    assert (asked.exit_code, "excludes" in asked.stderr) == (ExitCode.USAGE, True), asked.stderr
