"""Batches that a query as of a tick needs are shown, confirmed and made by an ordinary run before the query."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import Runs, Shop, ranges
from waterclock.cli.actions.make_before_query import make_first
from waterclock.errors import WaterclockError

STATE = "sales.best_customers"
SQL = f"SELECT count(*) FROM {STATE}"


@pytest.fixture
def late_shop(shop: Shop) -> Shop:
    """Return a shop in which the state of the 17th is behind and that of the 18th was never made."""
    shop.done("shop.customers", 19)
    shop.done("shop.orders", 17, 18, 19)
    shop.done(STATE, 17, 19)
    shop.done("shop.orders", 17, rows=12)
    return shop


def make(shop: Shop, tick: str, *, yes: bool = True) -> None:
    make_first(shop.folder, None, SQL, tick, yes=yes)


def test_a_state_that_is_behind_is_requested_and_made(late_shop: Shop, runs: Runs) -> None:
    make(late_shop, f"{STATE}@2024-11-17")
    [asked] = runs.asked
    assert ranges(asked) == {STATE: "20241117000000"}
    assert (asked.command, asked.force, asked.is_for_query) == ("query", {}, True)
    facts = late_shop.ledger.reads.snapshot(late_shop.project.flow).of(STATE)
    assert {label.day for label in facts.following} == {17}


def test_a_state_that_no_reader_needed_is_made(late_shop: Shop, runs: Runs) -> None:
    make(late_shop, "2024-11-19")
    [asked] = runs.asked
    assert ranges(asked) == {STATE: "20241118000000"}
    assert {label.day for label in asked.force[STATE]} == {18}


def test_an_existing_state_is_not_made_again(late_shop: Shop, runs: Runs) -> None:
    late_shop.done(STATE, 17)
    make(late_shop, f"{STATE}@2024-11-17")
    make_first(late_shop.folder, None, "SELECT 1 FROM waterclock.batches", "latest", yes=True)
    assert runs.asked == []


def test_batches_are_listed_and_confirmed_before_they_are_made(
    late_shop: Shop, runs: Runs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(WaterclockError, match="the command needs a confirmation") as refused:
        make(late_shop, f"{STATE}@2024-11-17", yes=False)
    assert refused.value.code == "E902"
    told = capsys.readouterr()
    assert told.out == ""
    assert "1 due: 1 ready" in told.err
    assert "stale: shop.orders changed since" in told.err
    assert runs.asked == []
    assert not late_shop.ledger.reads.snapshot(late_shop.project.flow).of(STATE).following


@pytest.mark.parametrize(("tick", "code"), [("2099-01-01", "E521"), ("2020-01-01", "E521"), ("no tick", "E106")])
def test_a_tick_without_an_answer_makes_nothing(late_shop: Shop, runs: Runs, tick: str, code: str) -> None:
    with pytest.raises(WaterclockError) as refused:
        make(late_shop, tick)
    assert refused.value.code == code
    assert runs.asked == []


@pytest.mark.parametrize("options", [(), ("--as-of", "latest", "--known-at", "2024-11-19")])
def test_make_is_refused_without_as_of_or_with_known_at(late_shop: Shop, options: tuple[str, ...]) -> None:
    found = late_shop.ask("query", SQL, "--make", *options)
    assert found.exit_code == 2
    assert "--make" in found.stderr
