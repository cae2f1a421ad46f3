"""Output of commands about a renamed table: before the run that renames it, and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import NOW, Shop, ask
from waterclock.operations.project_opening import open_project

OLD, NEW = "web.visits", "site.visits"


def rename(shop: Shop, *, says_so: bool = True) -> None:
    """Rename web.visits everywhere in the flow."""
    for path in (shop.folder / "flows").rglob("*.dpl"):
        text = path.read_text(encoding="utf-8").replace(OLD, NEW)
        if says_so and f"COLLECT {NEW}" in text:
            head, _, rest = text.partition(f"COLLECT {NEW}")
            statement, end, behind = rest.partition(";")
            text = f"{head}COLLECT {NEW}{statement} WAS {OLD}{end}{behind}"
        path.write_text(text.replace(f"landing.{NEW}", f"landing.{OLD}"), encoding="utf-8")
    shop.project = open_project(shop.folder, None)


@pytest.fixture
def renamed(busy_shop: Shop) -> Shop:
    rename(busy_shop)
    return busy_shop


def test_plan_shows_pending_renames_and_plans_as_if_they_were_done(busy_shop: Shop) -> None:
    before = busy_shop.json("plan")
    rename(busy_shop)
    told = busy_shop.ask("plan").stdout
    assert f"{NEW} was {OLD}: renamed at the next run" in told
    assert "older code" not in told
    after = busy_shop.json("plan")
    assert after["renames"] == {NEW: OLD}
    assert after["summary"] == before["summary"]
    named = [(it["table"].replace(OLD, NEW), it["label"], it["status"]) for it in before["batches"]]
    assert [(it["table"], it["label"], it["status"]) for it in after["batches"]] == named


def test_commands_show_the_new_name_before_and_after_the_run_that_renames(renamed: Shop) -> None:
    for _ in range(2):
        for command in (["status"], ["audit", f"{NEW}@20241118"], ["show", NEW, "--rows", "0"], ["lineage", NEW]):
            found = renamed.ask(*command)
            assert found.exit_code == 0, found.output
            assert NEW in found.stdout, command
        assert "few_orders" in renamed.ask("audit", f"{NEW}@20241118").stdout
        renamed.ledger.declared.apply(renamed.project.flow, who="ann", now=NOW, runner="desk:1")
    assert renamed.json("plan")["renames"] == {}
    assert OLD not in renamed.ask("status").stdout


def test_a_pause_before_the_run_that_renames_applies_to_the_renamed_table(renamed: Shop) -> None:
    assert renamed.ask("pause", NEW, "--why", "we move").exit_code == 0
    renamed.ledger.declared.apply(renamed.project.flow, who="ann", now=NOW, runner="desk:1")
    paused = renamed.ledger.reads.snapshot(renamed.project.flow).of(NEW).paused
    assert paused is not None
    assert paused.why == "we move"


def test_a_command_with_the_old_name_is_refused_with_the_new_name(renamed: Shop) -> None:
    found = renamed.ask("audit", f"{OLD}@20241118")
    assert found.exit_code != 0
    assert f"{OLD} is called {NEW} now" in found.output


def test_removing_the_was_clause_after_the_rename_changes_nothing(renamed: Shop) -> None:
    renamed.ledger.declared.apply(renamed.project.flow, who="ann", now=NOW, runner="desk:1")
    told = renamed.json("status")
    for path in (renamed.folder / "flows").rglob("*.dpl"):
        path.write_text(path.read_text(encoding="utf-8").replace(f" WAS {OLD}", ""), encoding="utf-8")
    assert renamed.json("status") == told


def test_a_project_that_never_ran_renames_nothing(fresh: Path) -> None:
    text = ask("plan", "--project", str(fresh), "--now", "2024-11-20T08:00").stdout
    assert "renamed" not in text
