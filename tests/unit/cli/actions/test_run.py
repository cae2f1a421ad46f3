from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.unit.cli.conftest import NOW, Shop, ask, day
from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.cli.actions import run as running
from waterclock.dpl.project import Project
from waterclock.engine import run_opening
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.spark.settings import SparkSettings, settings_of
from waterclock.notebook import commands
from waterclock.planner.plan import Plan, Status
from waterclock.planner.planning import Planner


@pytest.mark.slow
def test_a_watching_run_with_nothing_to_do_starts_no_spark_and_ends_by_ctrl_c(busy_shop: Shop) -> None:
    code = (
        "import sys; from waterclock.cli.app import main; code = main(sys.argv[1:]); "
        "print('pyspark' in sys.modules); sys.exit(code)"
    )
    command = ["run", "web.visits", "--labels", "2024-11-17", "--watch", "--project", str(busy_shop.folder)]
    process = subprocess.Popen([sys.executable, "-u", "-c", code, *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "watching; next due" in process.stdout.readline()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert "stopping" in said
    assert said.splitlines()[-1] == "False"
    assert process.returncode == 0


@pytest.mark.slow
def test_a_watching_run_maintains_in_the_declared_hours(busy_shop: Shop) -> None:
    file = busy_shop.folder / "waterclock.toml"
    file.write_text(f'{file.read_text(encoding="utf-8")}\n[maintenance]\nhours = "00:00-00:00"\n', encoding="utf-8")
    command = ["run", "web.visits", "--labels", "2024-11-17", "--watch", "--project", str(busy_shop.folder)]
    process = subprocess.Popen([sys.executable, "-m", "waterclock", *command], stdout=subprocess.PIPE, text=True)
    exports, end = busy_shop.folder / ".waterclock" / "ledger", time.monotonic() + 60
    while not list(exports.glob("*.jsonl.gz")) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert list(exports.glob("*.jsonl.gz")), said  # the ledger is exported before tables are maintained
    assert (process.returncode, "maintenance failed" in said) == (0, False), said


def test_a_run_with_nothing_due_reports_it_and_is_recorded_in_the_ledger(busy_shop: Shop) -> None:
    found = busy_shop.ask("run", "web.visits", "--labels", "2024-11-17")
    assert found.exit_code == 0
    assert found.stdout == "nothing is due; next due 2024-11-21 00:00Z\n"
    [run] = busy_shop.ledger.past.runs()
    assert (run.command, run.outcome) == ("run", "done")


@pytest.mark.parametrize("command", [("run",), ("run", "--json"), ("backfill", "shop.orders", "2024-11-19", "--yes")])
def test_a_run_that_leaves_a_batch_failed_ends_with_1(busy_shop: Shop, command: tuple[str, ...]) -> None:
    name, *options = command
    asked = options if name == "backfill" else ["shop.orders", "--labels", "2024-11-19", *options]
    assert busy_shop.ask(name, *asked).exit_code == 1
    assert [run.outcome for run in busy_shop.ledger.past.runs()] == ["done"]  # no batch failed in this run


def test_a_run_that_leaves_a_batch_held_exits_with_1_and_points_to_status(busy_shop: Shop) -> None:
    busy_shop.ledger.decisions.retry("shop.orders", [day(19)], who="ann")
    claim = busy_shop.ledger.claims.take(busy_shop._request(busy_shop._batch("shop.orders", 19)))
    busy_shop.ledger.claims.record_failed(claim, error="E755 held", is_transient=False, status=BatchStatus.HELD)
    found = busy_shop.ask("run", "shop.orders", "--labels", "2024-11-19")
    assert found.exit_code == 1
    assert "1 due: 1 held" in found.stdout
    assert "`waterclock status` shows the held batches" in found.stdout
    assert busy_shop.ask("run", "shop.orders", "--labels", "2024-11-18").exit_code == 0


def test_a_run_from_python_is_false_where_a_batch_stays_failed(
    busy_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "sessions_to_keep", lambda _: None)
    assert not commands.run("shop.orders", labels="2024-11-19", now=NOW, project=busy_shop.folder)
    assert commands.run("shop.orders", labels="2024-11-18", now=NOW, project=busy_shop.folder)


def test_a_run_is_json_even_where_nothing_is_due(busy_shop: Shop) -> None:
    told = busy_shop.json("run", "web.visits", "--labels", "2024-11-17")
    assert (told["done"], told["failed"], told["left"], told["stopped"]) == (0, [], {}, False)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--now", "2999-01-01"), "2999-01-01 00:00Z is in the future"),
        (("--until", "2999-01-01"), "2999-01-01 00:00Z is in the future"),
        (("--now", "2024-11-19", "--until", "2024-11-18"), "--until 2024-11-18 00:00Z is before --now"),
    ],
)
def test_a_run_for_a_time_in_the_future_is_refused(
    busy_shop: Shop, arguments: tuple[str, ...], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_drive_run", _never)
    found = busy_shop.ask("run", *arguments)
    assert found.exit_code == 1
    assert f"E904 {what}" in found.stderr


@pytest.mark.parametrize("command", ["recompute", "recollect"])
def test_recompute_and_recollect_report_how_many_other_batches_are_ready(
    busy_shop: Shop, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = busy_shop.project.flow
    plan = Planner(flow).plan(busy_shop.ledger.reads.snapshot(flow), NOW)
    ready = sum(batch.status is Status.READY for batch in plan.batches)
    assert ready
    monkeypatch.setattr(running, "_drive_run", lambda *_: RunOutcome(done=1, plan=Plan(now=NOW)))
    said = busy_shop.ask(command, "shop.orders@2024-11-18", "--yes", width=200).stdout
    assert "nothing is due" in said
    assert f"{ready} batch" in said
    assert "ready: `waterclock run` makes them" in said


def test_watch_rejects_the_now_option(busy_shop: Shop) -> None:
    found = ask("run", "--watch", "--now", "2024-11-19", "--project", str(busy_shop.folder))
    assert found.exit_code == 2
    assert "--watch" in found.stderr


def _never(*_: object) -> None:
    raise AssertionError("nothing may run")


@pytest.mark.parametrize(("tables", "asked"), [((), None), (("web.visits",), ("web.visits",))])
def test_spark_is_given_the_buckets_of_the_selected_tables_alone(
    busy_shop: Shop, monkeypatch: pytest.MonkeyPatch, tables: tuple[str, ...], asked: tuple[str, ...] | None
) -> None:
    found = []

    def settings(project: Project, tables: tuple[str, ...] | None = None) -> SparkSettings:
        found.append(tables)
        return settings_of(project, tables)

    monkeypatch.setattr(run_opening, "settings_of", settings)
    busy_shop.ask("run", *tables, "--labels", "2024-11-17")
    assert found == [asked]
