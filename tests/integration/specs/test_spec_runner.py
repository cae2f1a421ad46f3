"""Scenarios on the engine: the effect of each step on a scenario's own ledger and tables."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

import waterclock as wc
from tests import keys
from tests.specifying import feature, shop
from waterclock.dpl.project import Project
from waterclock.engine.spark.session import Sessions
from waterclock.errors import ProjectErrors
from waterclock.specs.outcome import ScenarioOutcome, ScenarioVerdict, SpecOutcome
from waterclock.specs.spec_runner import prepare_specs, run_all
from waterclock.testing.specs import spec_cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HOLDS = sorted((Path(__file__).parent / "holds").glob("*.feature"))
ONE_ORDER = """
Feature: f
  Background:
    Given the table raw.customers
      | customer | country |
      | 1        | FR      |
    And the table raw.orders
      | id | customer | amount |
      | 1  | 1        | 5      |
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return shop(tmp_path_factory.mktemp("shop"))


def run(spark: SparkSession, project: Project, text: str) -> SpecOutcome:
    found = feature(text)
    with prepare_specs(project, found.scenarios, sessions=Sessions.from_session(spark)) as at:
        return run_all(at, [found])


def one_order(spark: SparkSession, project: Project, steps: str) -> ScenarioOutcome:
    """Run one scenario in which a customer of France has ordered."""
    (one,) = run(spark, project, f"{ONE_ORDER}  Scenario: s\n{dedent(steps).strip()}\n").scenarios
    return one


def verdicts(outcome: ScenarioOutcome) -> list[str]:
    return [str(step.verdict) for step in outcome.steps if not step.step.is_background]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", HOLDS, ids=lambda path: path.stem)
def test_true_specifications_pass(spark: SparkSession, project: Project, path: Path) -> None:
    outcome = run(spark, project, path.read_text(encoding="utf-8"))

    assert outcome.is_passed, str(outcome)


def test_nested_decimals_of_a_given_step_keep_all_their_digits(spark: SparkSession, project: Project) -> None:
    given = """
        Feature: f
          Scenario: s
            Given the table raw.orders
              | id | amount | prices: ARRAY<STRUCT<net:DECIMAL(38,2)>> |
              | 1  | 1      | [{"net": 12345678901234567.89}]          |
            When raw.orders runs
            Then raw.orders is
              | id | prices                           |
              | 1  | [{"net": 12345678901234567.88}] |
    """
    (found,) = run(spark, project, dedent(given)).scenarios
    assert found.failed is not None
    assert '[{"net": 12345678901234567.89}]' in found.failed.message()


def test_a_table_that_differs_fails_its_step_and_the_rest_is_skipped(spark: SparkSession, project: Project) -> None:
    found = one_order(
        spark,
        project,
        """
        When marts.sales runs
        Then marts.sales is
          | country | orders | revenue |
          | FR      | 2      | 5       |
          | DE      | 1      | 1       |
        And marts.sales is empty
        """,
    )

    assert verdicts(found) == ["passed", "failed", "skipped"]
    assert found.failed is not None
    assert found.failed.message().splitlines() == [
        "rows differ: 1 changed, 1 missing",
        "  | country | orders            | revenue |",
        "~ | FR      | expected 2, got 1 | 5.00    |  changed",
        "- | DE      | 1                 | 1.00    |  missing",
    ]


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("When marts.sales runs\nThen marts.sales fails with somebody_bought", "marts.sales did not fail"),
        ("When marts.sales runs\nThen marts.sales warns of usual", "marts.sales did not warn of usual"),
        (
            "When marts.sales runs at 2020-01-02\nThen marts.sales at 2020-01-03 is empty",
            "marts.sales@20200103000000 was not made: no step runs it",
        ),
        (
            """
            Given the table raw.orders is now
              | id | amount |
              | 2  | -5     |
            When raw.orders runs
            Then raw.orders is empty
            """,
            "E740 raw.orders is not as expected: not_negative: 1 of 1 rows violate (amount >= 0)",
        ),
    ],
)
def test_false_steps_fail_with_a_message(spark: SparkSession, project: Project, steps: str, said: str) -> None:
    found = one_order(spark, project, steps)

    assert found.failed is not None
    assert found.failed.message().splitlines()[0] == said


def test_a_failure_of_another_kind_is_shown_as_it_is(spark: SparkSession, project: Project) -> None:
    (found,) = run(
        spark,
        project,
        """
        Feature: f
          Scenario: s
            Given the table raw.orders is empty
            And the table raw.customers is empty
            When marts.sales runs
            Then marts.sales fails with country
        """,
    ).scenarios

    assert found.failed is not None
    assert found.failed.message().startswith("E740 marts.sales is not as expected: somebody_bought: ")


def test_errors_in_all_scenarios_are_reported_before_any_scenario_runs(spark: SparkSession, project: Project) -> None:
    with pytest.raises(ProjectErrors) as raised:
        run(
            spark,
            project,
            """
            Feature: f
              Scenario: a table that is not there
                Given the table marts.sales is empty
                When marts.total runs
                Then marts.totl is empty
              Scenario: a column that is not there, and a value that is none
                Given the table marts.sales
                  | country | ordres | revenue |
                  | FR      | 1      | 5       |
                When marts.total runs
                Then marts.total is
                  | orders |
                  | one    |
              Scenario: a column that only Spark knows
                Given the table marts.sales is empty
                When marts.growth runs
                Then marts.growth is
                  | country | moar |
            """,
        )

    assert [(error.code, error.where, (error.fix or "")[:24]) for error in raised.value.errors] == [
        ("E511", "specs/a.feature:5:5", "did you mean marts.total"),
        ("E354", "specs/a.feature:8:19", "did you mean orders?"),
        ("E355", "specs/a.feature:13:9", "write it like 12; a miss"),
        ("E354", "specs/a.feature:18:19", "did you mean more?"),
    ]


def test_nothing_of_the_project_s_own_is_opened(spark: SparkSession, project: Project) -> None:
    before = sorted(path.name for path in project.root.iterdir())
    found = one_order(spark, project, "When marts.sales runs\nThen marts.sales contains\n| orders |\n| 1 |")

    assert found.verdict is ScenarioVerdict.PASSED
    assert sorted(path.name for path in project.root.iterdir()) == before


def test_a_notebook_and_pytest_run_the_same(spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None  # the existing session is used
    shop(tmp_path)
    (tmp_path / "specs").mkdir()
    right = (
        "  Scenario: right\n    When marts.sales runs\n    Then marts.sales contains\n      | orders |\n      | 1 |\n"
    )
    wrong = "  Scenario: wrong\n    When marts.sales runs\n    Then marts.sales is empty\n"
    (tmp_path / "specs" / "a.feature").write_text(ONE_ORDER + right + wrong)

    outcome = wc.spec(project=tmp_path, html=tmp_path / "spec.html")
    first, second = spec_cases(tmp_path)

    assert [str(each.verdict) for each in outcome.scenarios] == ["passed", "failed"]
    assert "✕ 1 failed" in (tmp_path / "spec.html").read_text(encoding="utf-8")
    assert [str(first), str(second)] == ["f / right", "f / wrong"]
    first.check()
    with pytest.raises(AssertionError, match="rows differ: 1 unexpected"):
        second.check()


def test_functions_with_a_key_use_the_keys_of_the_project(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in keys.VARIABLES.items():
        monkeypatch.setenv(name, value)
    safe = "TRANSFORM safe.customers AS SELECT customer, hash_keyed(country, 'pii') AS country FROM raw.customers;"
    project = shop(tmp_path, keys.DECLARED + safe)
    found = one_order(
        spark,
        project,
        f"""
        When safe.customers runs
        Then safe.customers is
          | customer | country             |
          | 1        | {keys.hashed("FR")} |
        """,
    )
    assert found.verdict is ScenarioVerdict.PASSED, str(found)
