from __future__ import annotations

import io
import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.json_answers import check_answer
from tests.specifying import shop
from tests.unit.cli.conftest import ask
from waterclock.cli.actions import spec
from waterclock.cli.actions.spec import SpecReport
from waterclock.cli.views.theme import theme
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.specs.comparing import compare
from waterclock.specs.document import Feature, Scenario
from waterclock.specs.finding import find_features
from waterclock.specs.outcome import ScenarioOutcome, ScenarioVerdict, SpecOutcome, StepOutcome
from waterclock.specs.spec_runner import ScenarioListener

TEXT = """
Feature: Sales
  Rule: only what is paid counts
    Scenario: it is paid
      Given the table raw.orders is empty
      Then marts.sales is empty
    Scenario: it is not
      Given the table raw.orders is empty
      Then marts.sales is empty
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shop(tmp_path)
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "sales.feature").write_text(TEXT)
    return tmp_path


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Run scenarios without Spark; those whose titles are in the set fail."""
    titles: set[str] = set()

    @contextmanager
    def ready(project: Any, scenarios: Any, *, errors: Sequence[WaterclockError]) -> Iterator[Any]:
        if errors:
            raise ProjectErrors(errors)
        yield project, scenarios

    def run_all(at: Any, features: tuple[Feature, ...], watch: ScenarioListener) -> SpecOutcome:
        outcomes = []
        for number, scenario in enumerate(at[1], 1):
            if watch.is_stopping():
                break
            watch.on_scenario_start(scenario, number)
            outcomes.append(_outcome(scenario, is_passed=scenario.title not in titles))
            watch.on_scenario_end(outcomes[-1])
        stopped = len(at[1]) - len(outcomes)
        return SpecOutcome(
            at[0].name, at[0].env, features, tuple(outcomes), was_stopped=stopped > 0, left_out=stopped, seconds=2.0
        )

    monkeypatch.setattr(spec, "prepare_specs", ready)
    monkeypatch.setattr(spec, "run_all", run_all)
    return titles


def _outcome(scenario: Scenario, *, is_passed: bool) -> ScenarioOutcome:
    rows = compare(("country", "orders"), [("FR", 1)], [("FR", 1 if is_passed else 2)], keys=("country",))
    last = StepOutcome(scenario.steps[-1], ScenarioVerdict.PASSED if is_passed else ScenarioVerdict.FAILED, rows)
    return ScenarioOutcome(
        scenario, (StepOutcome(scenario.steps[0], ScenarioVerdict.PASSED), last), 1.0, ("marts.sales",)
    )


def test_passed_examples_are_listed_below_their_feature_and_rule(root: Path, failing: set[str]) -> None:
    assert not failing
    done = ask("spec", "--project", str(root))

    assert done.exit_code == 0
    assert [line.rstrip() for line in done.stdout.splitlines()] == [
        "Sales",
        "  only what is paid counts",
        "    ✓ it is paid  1.0 s",
        "    ✓ it is not  1.0 s",
        "",
        "2 passed of 2 examples (2.0 s)",
    ]


def test_a_failed_example_is_shown_with_its_differing_rows_and_exit_code_1(root: Path, failing: set[str]) -> None:
    failing.add("it is not")
    done = ask("spec", "--project", str(root))

    assert done.exit_code == 1
    assert [line.rstrip() for line in done.stdout.splitlines()][3:] == [
        "    ✕ it is not  1.0 s",
        "      Then marts.sales is empty  specs/sales.feature:9:7",
        "      rows differ: 1 changed",
        "        | country | orders            |",
        "      ~ | FR      | expected 1, got 2 |  changed",
        "",
        "1 passed, 1 failed of 2 examples (2.0 s)",
    ]


def test_scenarios_are_chosen_and_the_page_is_written(root: Path, failing: set[str]) -> None:
    assert not failing
    page = root / "spec.html"
    done = ask("spec", "specs", "--project", str(root), "--name", "it is paid", "--html", str(page))

    assert done.exit_code == 0
    assert "1 passed of 1 example" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("written: ")
    assert "shop: specification" in page.read_text(encoding="utf-8")


def test_json_has_the_keys_that_are_documented(root: Path, failing: set[str]) -> None:
    failing.add("it is paid")
    done = ask("spec", "--project", str(root), "--json")

    told = json.loads(done.stdout)
    assert done.exit_code == 1
    check_answer("spec", told)
    assert [each["verdict"] for each in told["scenarios"]] == ["failed", "passed"]


def test_a_page_that_cannot_be_written_is_a_card(root: Path, failing: set[str]) -> None:
    assert not failing
    done = ask("spec", "--project", str(root), "--html", str(root / "none" / "a.html"))

    assert done.exit_code == 1
    assert "E362 the page cannot be written" in done.stderr


def test_files_that_are_no_gherkin_are_cards(root: Path, failing: set[str]) -> None:
    assert not failing
    (root / "specs" / "bad.feature").write_text("Feature: a\n")
    done = ask("spec", "--project", str(root))

    assert done.exit_code == 1
    assert "E350 there is no Scenario in this file" in done.stderr


def test_a_project_without_specifications_is_a_card(tmp_path: Path) -> None:
    shop(tmp_path)
    done = ask("spec", "--project", str(tmp_path))

    assert done.exit_code == 1
    assert "E360 there are no specifications in" in done.stderr


def test_ctrl_c_stops_after_the_scenario_that_runs(
    root: Path, failing: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not failing
    asked = iter([False, True])
    monkeypatch.setattr(SpecReport, "is_stopping", lambda _: next(asked))
    done = ask("spec", "--project", str(root))

    assert done.exit_code == 130
    assert "1 passed of 1 example (2.0 s); stopped, 1 not run" in done.stdout


def test_a_terminal_shows_which_scenario_runs_and_ctrl_c_is_heard(root: Path) -> None:
    stream = io.StringIO()
    to = Console(file=stream, force_terminal=True, width=80, theme=theme("light"))
    told = SpecReport(to, 7, is_quiet=False)
    (scenario, *_) = find_features(root).scenarios
    before = signal.getsignal(signal.SIGINT)

    with told.show_progress():
        told.on_scenario_start(scenario, 3)
        assert not told.is_stopping()
        signal.raise_signal(signal.SIGINT)
        assert told.is_stopping()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    assert "3 of 7: it is paid" in stream.getvalue()
    assert signal.getsignal(signal.SIGINT) is before
