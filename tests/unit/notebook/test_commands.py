"""Commands called from Python behave like the command line, and show its output."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import waterclock as wc
from tests.unit.cli.conftest import NOW, ask, day
from waterclock.engine.query.query import AnsweredQuery
from waterclock.engine.query.ticks import ResolvedTick
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.notebook.results import WIDTH, QueryResult
from waterclock.operations.query_results import ZonedQueryResult

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Shop


class Page(HTMLParser):
    """Reads the text of a piece of HTML, and rejects unclosed tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.open_ = "", list[str]()
        self.feed(text)
        self.close()
        assert self.open_ == []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - HTMLParser's signature
        self.open_.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def test_a_plan_is_the_command_s_and_shown_as_it_is_printed(busy_shop: Shop) -> None:
    planned = wc.plan(project=busy_shop.folder, now="2024-11-20T08:00")
    assert planned.to_json()["summary"] == busy_shop.json("plan")["summary"]
    printed = lines(busy_shop.ask("plan", width=WIDTH).stdout)
    assert lines(repr(planned)) == printed
    assert lines(Page(planned._repr_html_()).text) == printed
    assert "<span style" in planned._repr_html_()
    assert any(batch.table == "shop.orders" and batch.status == "failed" for batch in planned.plan.batches)


def test_a_selection_and_labels_have_the_same_meaning_as_on_the_command_line(busy_shop: Shop) -> None:
    told = wc.plan("shop.orders", "sales.*", labels="2024-11-19", project=busy_shop.folder, now=NOW)
    asked = busy_shop.ask("plan", "shop.orders", "sales.*", "--labels", "2024-11-19", width=WIDTH)
    assert lines(repr(told)) == lines(asked.stdout)
    with pytest.raises(WaterclockError, match="E511"):
        wc.plan("shop.oders", project=busy_shop.folder, now=NOW)


def test_a_status_is_the_grid_that_the_command_prints(busy_shop: Shop) -> None:
    told = wc.status(by="day", project=busy_shop.folder, now=NOW)
    printed = lines(busy_shop.ask("status", "--by", "day", width=WIDTH).stdout)
    assert lines(repr(told)) == printed
    assert lines(Page(told._repr_html_()).text) == printed
    asked = busy_shop.json("status", "--by", "day")
    assert {name: told.to_json()[name] for name in ("env", "now", "due")} == {
        name: asked[name] for name in ("env", "now", "due")
    }


def test_a_status_contains_the_lag_that_the_command_prints(busy_shop: Shop) -> None:
    told = wc.status(lag=True, project=busy_shop.folder, now=NOW)
    printed = lines(busy_shop.ask("status", "--lag", width=WIDTH).stdout)
    assert lines(repr(told)) == printed
    assert lines(Page(told._repr_html_()).text) == printed
    assert told.to_json()["lag"] == busy_shop.json("status", "--lag")["lag"] == [each.to_json() for each in told.lags]
    assert told.lags
    assert wc.status(project=busy_shop.folder, now=NOW).lags == ()
    with pytest.raises(WaterclockError, match="E919"):
        wc.status(lag=True, by="day", project=busy_shop.folder, now=NOW)


def test_differences_and_their_causes_are_those_that_the_command_prints(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.engine.spark.session.Sessions.own", None)  # no session is started
    shop.done("shop.customers", 19)
    shop.done("shop.orders", 18)
    shop.done("sales.by_country", 18)
    label = "sales.by_country@2024-11-18"
    equal = wc.diff(as_known="2100-01-01", project=shop.folder)
    assert equal
    assert {each.name for each in equal.tables} == {"shop.customers", "shop.orders", "sales.by_country"}
    assert equal.to_json() == shop.json("diff", "--all", "--as-known", "2100-01-01")
    printed = lines(shop.ask("diff", "--all", "--as-known", "2100-01-01", width=WIDTH).stdout)
    assert lines(repr(equal)) == printed
    assert lines(Page(equal._repr_html_()).text) == printed

    shop.done("shop.orders", 18, rows=12, version=40)
    shop.done("sales.by_country", 18, rows=11, version=41)
    found = wc.diff(label, why=True, project=shop.folder)
    assert (bool(found), found.differs, found.causes[0].source) == (False, True, "shop.orders")
    assert found.to_json() == shop.json("diff", label, "--why")
    assert lines(Page(found._repr_html_()).text) == lines(shop.ask("diff", label, "--why", width=WIDTH).stdout)


def test_arguments_of_a_comparison_that_exclude_each_other_are_refused(shop: Shop) -> None:
    for wrong in (
        {"against": "dev"}, {"against": "prod", "as_known": NOW}, {"why": True},
    ):  # fmt: skip
        with pytest.raises(TypeError):
            wc.diff(project=shop.folder, **wrong)
    for numbers in ({"tolerance": -1.0}, {"tolerance": float("nan")}, {"limit": 10_001}):
        with pytest.raises(ValueError, match="number from 0"):
            wc.diff(project=shop.folder, **numbers)


def test_a_check_returns_all_errors_and_raises_none(fresh: Path) -> None:
    good = wc.check(project=fresh)
    assert good
    assert good.flow is not None
    assert lines(repr(good)) == lines(ask("check", "--project", str(fresh)).stdout)
    (fresh / "flows" / "more.dpl").write_text("COLLECT a.b <x> FROM nowhere;\nVIEW")
    bad = wc.check(project=fresh)
    assert not bad
    assert [error.code for error in bad.errors]
    assert lines(repr(bad)) == lines(ask("check", "--project", str(fresh), width=WIDTH).stdout)
    assert lines(Page(bad._repr_html_()).text) == lines(repr(bad))
    for refused in (wc.plan, wc.status, wc.run):
        with pytest.raises(ProjectErrors):
            refused(project=fresh, now=NOW)


def test_rows_are_a_table_in_a_notebook(fresh: Path) -> None:
    answer = AnsweredQuery((("name", "string"), ("n", "bigint")), (("<b>", 1), (None, 2)), True, ResolvedTick(day(19)))
    rows = QueryResult(ZonedQueryResult(answer))
    assert (list(rows), len(rows), rows.columns, rows.is_cut) == ([("<b>", 1), (None, 2)], 2, ("name", "n"), True)
    assert (rows.as_of, rows.known_at, rows.types) == (day(19), None, {"name": "string", "n": "bigint"})
    page = rows._repr_html_()
    assert "&lt;b&gt;" in page
    assert "text-align:right" in page
    assert "limit=" in Page(page).text
    assert "20241119000000" in Page(page).text
    assert repr(rows).splitlines()[0].split() == ["name", "n"]
    with pytest.raises(TypeError, match="known_at goes with as_of"):
        wc.query("SELECT 1", known_at=NOW, project=fresh)


def test_a_datetime_without_a_zone_is_no_instant(shop: Shop) -> None:
    with pytest.raises(WaterclockError, match="E106"):
        wc.plan(project=shop.folder, now=NOW.replace(tzinfo=None))


def test_no_tables_give_no_frames() -> None:
    assert wc.resolve([]) == ()


def test_a_query_is_recorded_before_it_runs_where_users_are_declared(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[list[str]] = []

    def answer(*_: object, **__: object) -> ZonedQueryResult:
        recorded.append([each.action for each in shop.ledger.access.list_accesses(since=None, who=None, most=9)])
        raise WaterclockError("E733", "refused")

    monkeypatch.setattr("waterclock.notebook.commands.answer_query", answer)
    file = shop.folder / "waterclock.toml"
    for users in ("", '\n[roles]\nviewer = ["look"]\n[users.anna]\nroles = ["viewer"]\n'):
        file.write_text(file.read_text() + users)
        with pytest.raises(WaterclockError, match="refused"):
            wc.query("SELECT 1 AS one", project=shop.folder)
    assert recorded == [[], ["query"]]
    [found] = shop.ledger.access.list_accesses(since=None, who=None, most=9)
    assert (found.sign_in, found.refusal, len(found.query or "")) == ("command", None, 64)
