from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.specifying import shop, typed_script
from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.dpl.project import Project
from waterclock.flow.enums import Batching, Kind, Mode
from waterclock.planner.planning import Planner
from waterclock.specs.derived_flow import ScenarioFlow, derive

SALES = """
    Given the table raw.orders at 2020-01-02
      | id | amount | channel |
      | 1  | 5      | web     |
    And the table raw.customers at 2020-01-02
      | customer | country |
      | 1        | FR      |
    When marts.sales runs at 2020-01-02
    Then marts.sales is empty
"""


def derived(project: Project, steps: str) -> ScenarioFlow:
    return derive(project.flow, typed_script(project, steps))


def test_a_given_table_is_a_collect_of_the_same_shape_without_its_rules(project: Project) -> None:
    flow = derived(project, SALES).flow
    orders, customers = flow.tables["raw.orders"], flow.tables["raw.customers"]

    assert set(flow.tables) == {"raw.orders", "raw.customers", "marts.sales"}
    assert (orders.kind, orders.type, orders.mode) == (
        Kind.COLLECT,
        project.flow.tables["raw.orders"].type,
        Mode.APPEND,
    )
    assert orders.source is not None
    assert orders.source.batching is Batching.DATA_TIME
    assert orders.rules == ()
    assert [(column.name, column.type, column.is_key) for column in orders.columns.named] == [
        ("id", "bigint", False),
        ("customer", "int", False),
        ("amount", "decimal(10,2)", False),
        ("ordered_at", "timestamp", False),
        ("channel", "string", False),
    ]
    assert not any(column.rules or column.is_not_null for column in orders.columns.named)
    assert customers.mode is Mode.REPLACE
    assert not customers.is_snapshot


def test_a_table_that_runs_is_as_declared_except_for_start_and_delay(project: Project) -> None:
    sales, declared = derived(project, SALES).flow.tables["marts.sales"], project.flow.tables["marts.sales"]

    assert (sales.query, sales.rules, sales.columns) == (declared.query, declared.rules, declared.columns)
    assert sales.cadence.delay == timedelta(0)
    assert sales.cadence.period == declared.cadence.period


def test_a_given_table_is_not_measured_since_its_rows_may_have_no_measured_column(tmp_path: Path) -> None:
    visits = """
    COLLECT raw.visits PARTITIONED (page STRING, *) FROM shop.visits EVERY DAY BY DATA TIME at
      MEASURE sum(seconds) AS s;
    TRANSFORM marts.visits PARTITIONED AS SELECT page, count(*) AS visits FROM raw.visits GROUP BY page;
    """
    given = "Given the table raw.visits at 2020-01-02 is empty\nWhen {0} runs\nThen {0} is empty"
    project = shop(tmp_path, visits)

    assert derived(project, given.format("marts.visits")).flow.tables["raw.visits"].measures == ()
    assert derived(project, given.format("raw.visits")).flow.tables["raw.visits"].measures


def test_a_source_that_runs_itself_keeps_its_rules(project: Project) -> None:
    flow = derived(
        project,
        """
        Given the table raw.orders
          | id | amount |
          | 1  | -5     |
        When raw.orders runs
        Then raw.orders fails with not_negative
        """,
    ).flow

    columns = {column.name: column for column in flow.tables["raw.orders"].columns.named}
    assert columns["id"].is_key
    assert [rule.name for rule in columns["amount"].rules] == ["not_negative"]


def test_given_tables_start_at_the_earliest_input_that_any_run_can_read(tmp_path: Path) -> None:
    hourly = "TRANSFORM marts.share PARTITIONED EVERY 1 HOUR AS SELECT country, orders FROM HISTORY(marts.sales);"
    flow = derived(
        shop(tmp_path, hourly),
        """
        Given the table raw.orders at 2020-01-05 is empty
        And the table raw.customers at 2020-01-05 is empty
        When marts.share runs at 2020-01-05T09:00
        Then marts.share is empty
        """,
    ).flow

    starts = Planner(flow).starts(LedgerSnapshot(), datetime(2020, 2, 1, tzinfo=UTC))
    assert starts["raw.orders"] == datetime(2020, 1, 4, tzinfo=UTC)
    assert starts["marts.share"] <= datetime(2020, 1, 5, 9, tzinfo=UTC)


def test_previous_of_a_given_table_is_empty_where_nothing_is_given_before(project: Project) -> None:
    flow = derived(
        project,
        """
        Given the table raw.orders at 2020-01-05 is empty
        And the table raw.customers at 2020-01-05 is empty
        When marts.growth runs at 2020-01-05
        Then marts.growth is empty
        """,
    ).flow

    starts = Planner(flow).starts(LedgerSnapshot(), datetime(2020, 2, 1, tzinfo=UTC))
    assert starts["raw.orders"] == starts["marts.growth"] == datetime(2020, 1, 5, tzinfo=UTC)


def test_earlier_rows_of_a_table_that_runs_are_seeded_by_a_hidden_source(project: Project) -> None:
    found = derived(
        project,
        """
        Given the table marts.total at 2020-01-01
          | orders | revenue |
          | 3      | 9.5     |
        And the table marts.sales at 2020-01-02 is empty
        When marts.total runs at 2020-01-02
        Then marts.total is empty
        """,
    )

    assert found.seeds == {"marts.total": "marts.total__given"}
    seeding, real = found.seeding.tables["marts.total"], found.flow.tables["marts.total"]
    assert [str(read) for read in seeding.reads] == ["marts.total__given"]
    assert real.query == project.flow.tables["marts.total"].query
    assert (seeding.kind, seeding.mode, seeding.cadence) == (real.kind, real.mode, real.cadence)
    assert real.start == datetime(2020, 1, 1, tzinfo=UTC)
    assert found.seeding.fingerprint != found.flow.fingerprint


CLOSING = """
COLLECT web.readings PARTITIONED (device STRING, at TIMESTAMP) FROM shop.readings EVERY 6 HOURS BY DATA TIME at;
TRANSFORM web.daily PARTITIONED (device STRING KEY, readings BIGINT) OPTIONS (open_windows 'kept') EVERY DAY
  CLOSE WHEN watermark(at, device) >= WINDOW_END() MAX LATENESS 12 HOURS
AS SELECT device, count(*) AS readings FROM UNTIL(web.readings, '1 day')
WHERE at >= WINDOW_START() AND at < WINDOW_END() GROUP BY device;
TRANSFORM web.report PARTITIONED AS SELECT count(*) AS devices FROM web.daily;
TRANSFORM web.corrections PARTITIONED AS SELECT count(*) AS readings FROM web.daily_late;
"""
NO_READINGS = "Given the table web.readings at 20200102000000 is empty"


@pytest.mark.parametrize(
    ("given", "runs", "tables"),
    [
        ("Given the table web.daily at 2020-01-02 is empty", "web.report", {"web.daily", "web.report"}),
        (
            f"Given the table web.daily at 2020-01-01 is empty\n{NO_READINGS}",
            "web.daily",
            {"web.daily", "web.daily__given", "web.readings"},
        ),
        (
            "Given the table web.daily_late at 20200102000000 is empty",
            "web.corrections",
            {"web.daily_late", "web.corrections"},
        ),
        (NO_READINGS, "web.corrections", {"web.daily", "web.daily_late", "web.corrections", "web.readings"}),
        (NO_READINGS, "web.spd_daily", {"web.daily", "web.spd_daily", "web.readings"}),
    ],
)
def test_a_table_that_closes_its_books_and_those_next_to_it_are_given_or_run(
    tmp_path: Path, given: str, runs: str, tables: set[str]
) -> None:
    label = "2020-01-02" if runs in {"web.daily", "web.report"} else "20200102000000"
    steps = f"{given}\nWhen {runs} runs at {label}\nThen {runs} is empty"
    found = derived(shop(tmp_path, CLOSING), steps)

    assert set(found.flow.tables) == tables
    for flow in (found.flow, found.seeding):
        assert Planner(flow).plan(LedgerSnapshot(), datetime(2020, 1, 4, tzinfo=UTC)).batches


def test_a_table_without_inputs_begins_with_the_scenario(tmp_path: Path) -> None:
    days = """
    TRANSFORM cal.days PARTITIONED (n INT) EVERY DAY START '2026-01-01' AS SELECT 1 AS n;
    TRANSFORM cal.pages PARTITIONED EVERY DAY AS SELECT d.n, c.page FROM cal.days d CROSS JOIN raw.clicks c;
    """
    flow = derived(
        shop(tmp_path, days),
        """
        Given the table raw.clicks at 2020-01-02 is empty
        When cal.pages runs at 2020-01-02
        Then cal.pages is empty
        """,
    ).flow

    starts = Planner(flow).starts(LedgerSnapshot(), datetime(2020, 2, 1, tzinfo=UTC))
    assert starts["cal.days"] == starts["cal.pages"] == datetime(2020, 1, 2, tzinfo=UTC)
