from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Shop, ask


def test_a_plan_shows_a_summary_a_line_per_table_and_the_next_due_time(busy_shop: Shop) -> None:
    found = busy_shop.ask("plan")
    lines = found.stdout.splitlines()
    assert found.exit_code == 0
    assert lines[0].startswith("9 due: ")
    assert "1 failed" in lines[0]
    assert lines[0].endswith("next due 2024-11-21 00:00Z")
    assert any("shop.orders" in line and "1 label" in line for line in lines)


def test_a_blocked_batch_is_shown_with_the_blocking_batch_and_its_error(busy_shop: Shop) -> None:
    found = busy_shop.ask("plan", "sales.by_country").stdout
    assert "┃ blocked" in found
    assert "blocked by shop.orders@20241119000000, failed: E731 amount is no number" in found


def test_neighbours_in_one_state_are_one_line_with_dates_and_labels(busy_shop: Shop) -> None:
    found = busy_shop.ask("plan", "web.per_order").stdout
    assert "· ready     2024-11-17 .. 2024-11-18    20241117000000..20241118000000" in found
    assert "┃ blocked   2024-11-19                  20241119000000" in found


def test_plan_counts_labels_not_needed_and_labels_covered_by_a_later_snapshot(busy_shop: Shop) -> None:
    found = busy_shop.ask("plan").stdout
    assert "not needed: 2 labels of sales.best_customers" in found
    assert "stood for: 2 labels of shop.customers" in found


def test_code_that_changed_is_shown(busy_shop: Shop) -> None:
    flow = busy_shop.folder / "flows" / "2_transform.dpl"
    flow.write_text(
        flow.read_text().replace("sum(o.amount), 2) AS revenue, count_if", "sum(o.amount), 1) AS revenue, count_if")
    )
    assert "sales.by_country: 2 done labels ran under older code" in busy_shop.ask("plan").stdout
    assert busy_shop.json("plan")["older_code"] == {"sales.by_country": 2}


def test_the_plan_is_json_with_the_local_date_beside_each_label(busy_shop: Shop) -> None:
    told = busy_shop.json("plan", "sales.by_country")
    [batch] = told["batches"]
    assert (batch["label"], batch["local"], batch["status"]) == ("20241119000000", "2024-11-19", "blocked")
    assert batch["causes"][0]["table"] == "shop.orders"
    assert told["summary"]["blocked"] == 1
    assert told["now"] == "2024-11-20T08:00:00Z"
    assert told["next_due"] == "2024-11-21T00:00:00Z"


def test_plan_lists_only_batches_of_the_requested_labels(busy_shop: Shop) -> None:
    told = busy_shop.json("plan", "out.by_country", "--labels", "2024-11-17..2024-11-18")
    assert [batch["label"] for batch in told["batches"]] == ["20241117000000", "20241118000000"]
    told = busy_shop.json("plan", "out.by_country@2024-11-18")
    assert [batch["label"] for batch in told["batches"]] == ["20241118000000"]


def test_plan_exits_with_a_nonzero_code_only_with_detailed_exitcode(busy_shop: Shop) -> None:
    assert busy_shop.ask("plan").exit_code == 0
    assert busy_shop.ask("plan", "--detailed-exitcode").exit_code == 11
    assert busy_shop.ask("plan", "web.per_order@..2024-11-18", "--detailed-exitcode").exit_code == 10
    assert busy_shop.ask("plan", "web.visits", "--detailed-exitcode").exit_code == 0


def test_a_plan_of_a_project_that_never_ran_makes_no_ledger(fresh: Path) -> None:
    found = ask("plan", "--json", "--project", str(fresh), "--now", "2024-11-20")
    assert json.loads(found.stdout)["summary"]["due"] == 17
    assert not (fresh / ".waterclock").exists()


def test_scenario_p_a_selection_that_matches_nothing_is_an_error_with_the_nearest_names(busy_shop: Shop) -> None:
    for command in ("plan", "status", "run", "retry"):
        found = busy_shop.ask(command, "sales.by_contry")
        assert found.exit_code == 1
        assert "E511 no table matches sales.by_contry" in found.stderr
        assert "did you mean sales.by_country" in found.stderr


def test_now_is_read_in_the_projects_zone_and_refused_where_it_is_no_time(fresh: Path) -> None:
    toml = fresh / "waterclock.toml"
    toml.write_text(toml.read_text().replace("[defaults]", '[defaults]\nzone = "America/New_York"'))
    told = json.loads(ask("plan", "--json", "--now", "2024-11-19", "--project", str(fresh)).stdout)
    assert told["now"] == "2024-11-19T05:00:00Z"
    found = ask("plan", "--now", "yesterday", "--project", str(fresh))
    assert found.exit_code == 1
    assert "E106" in found.stderr


def test_plan_shows_when_the_first_window_of_a_table_that_has_not_started_closes(fresh: Path) -> None:
    toml = fresh / "waterclock.toml"
    toml.write_text(toml.read_text().replace('start = "2024-11-17"', 'start = "2024-11-20"'))
    found = ask("plan", "shop.orders", "shop.customers", "--now", "2024-11-20T08:00Z", "--project", str(fresh)).stdout
    closes = "first window 2024-11-20, closes 2024-11-21 00:00Z"
    assert found.splitlines()[0] == "nothing is due; next due 2024-11-21 00:00Z"
    assert f"not started: shop.orders, shop.customers; {closes}" in found

    told = json.loads(ask("plan", "--json", "--now", "2024-11-20", "--project", str(fresh)).stdout)["not_begun"]
    end = "2024-11-21T00:00:00Z"
    assert told["shop.orders"] == {"label": "20241120000000", "local": "2024-11-20", "end": end, "due": end}


def test_plan_omits_first_windows_of_tables_that_have_started(busy_shop: Shop) -> None:
    assert "not started" not in busy_shop.ask("plan").stdout
    assert busy_shop.json("plan")["not_begun"] == {}


def test_a_claim_of_a_runner_that_has_ended_is_not_shown_as_running(
    busy_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = busy_shop.ledger.claims.take(busy_shop._request(busy_shop._batch("web.per_order", 17)))
    assert "running" in busy_shop.ask("plan", "web.per_order").stdout
    monkeypatch.setattr("waterclock.operations.abandoned_claim_report.has_ended", lambda runner: runner == "desk:1")
    told = busy_shop.ask("plan", "web.per_order").stdout
    says = f"claimed by a runner that has ended; a run here takes it over, one elsewhere at {held.lease_until:%H:%MZ}"
    assert says in " ".join(told.split())
    assert "running" not in told
    assert "running" not in busy_shop.ask("status").stdout
