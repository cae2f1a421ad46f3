from __future__ import annotations

from datetime import UTC, datetime

from tests.specifying import scenario, script, typed_script, wrong
from waterclock.dpl.project import Project
from waterclock.specs.script import ExpectedStep, GivenStep, ScriptRun
from waterclock.timelabel.label import label_of


def day(number: int, hour: int = 0) -> datetime:
    return datetime(2020, 1, number, hour, tzinfo=UTC)


def placed(project: Project, steps: str) -> list[object]:
    """Return the meaning of each step: labels of given and run tables, and the range of expected ones."""
    found: list[object] = []
    for action in script(project, steps).actions:
        if isinstance(action, GivenStep):
            found.append({label_of(label)[:10]: len(rows) for label, rows in action.labels.items()})
        elif isinstance(action, ScriptRun):
            found.append([label_of(window.start)[:10] for window in action.windows])
        else:
            found.append((action.low and label_of(action.low)[:10], label_of(action.high)[:10]))
    return found


def test_an_explicit_label_is_parsed_like_the_labels_of_commands(project: Project) -> None:
    assert placed(
        project,
        """
        Given the table raw.clicks at 2020-01-01T05:00
          | page | n |
          | a    | 1 |
        When marts.pages runs at 20200101000000
        Then marts.pages at 2020-01-01 is empty
        And raw.clicks at 2020-01-01 contains
          | page |
          | a    |
        """,
    ) == [{"2020010105": 1}, ["2020010100"], ("2020010100", "2020010200"), ("2020010100", "2020010200")]


def test_a_given_table_without_a_label_ends_at_the_tick_of_the_next_run(project: Project) -> None:
    assert placed(
        project,
        """
        Given the table raw.clicks is empty
        And the table raw.customers is empty
        And the table raw.orders is empty
        When marts.pages runs at 2020-01-01
        And marts.sales runs at 2020-01-05
        Then marts.sales is empty
        """,
    ) == [
        {"2020010123": 0},
        {"2020010100": 0},
        {"2020010100": 0},
        ["2020010100"],
        ["2020010500"],
        ("2020010500", "2020010600"),
    ]


def test_a_run_without_a_label_is_the_first_that_sees_all_that_is_given(project: Project) -> None:
    assert placed(
        project,
        """
        Given the table raw.clicks at 2020-01-02T03:00
          | page |
          | a    |
        When marts.pages runs
        Then marts.pages is empty
        """,
    ) == [{"2020010203": 1}, ["2020010200"], ("2020010200", "2020010300")]


def test_where_nothing_names_a_label_one_is_as_good_as_another(project: Project) -> None:
    given, run, expected = placed(
        project,
        """
        Given the table raw.clicks is empty
        When marts.pages runs
        Then marts.pages is empty
        """,
    )
    assert (given, run, expected) == ({"2000010323": 0}, ["2000010300"], ("2000010300", "2000010400"))


def test_rows_may_say_their_labels_in_the_hidden_column(project: Project) -> None:
    assert placed(
        project,
        """
        Given the table raw.clicks
          | timelabel        | page |
          | 2020-01-01T05:00 | a    |
          | 20200101060000   | b    |
          | 2020-01-01T05:00 | c    |
        When marts.pages runs
        Then raw.clicks is
          | timelabel        | page |
          | 2020-01-01T05:00 | a    |
        """,
    ) == [{"2020010105": 2, "2020010106": 1}, ["2020010100"], (None, "2020010200")]


def test_a_day_in_the_hidden_column_means_its_last_hour_as_in_a_step(project: Project) -> None:
    steps = """
        Given the table raw.clicks
          | timelabel  | page |
          | 2020-01-01 | a    |
        When marts.pages runs
        Then raw.clicks is
          | timelabel  | page |
          | 2020-01-01 | a    |
        """
    assert placed(project, steps)[0] == {"2020010123": 1}
    assert typed_script(project, steps).rows[2].rows == (("20200101230000", "a"),)


def test_late_rows_without_a_label_are_of_the_newest_that_is_given(project: Project) -> None:
    assert placed(
        project,
        """
        Given the table raw.clicks at 2020-01-01T05:00 is empty
        When marts.pages runs
        And the table raw.clicks also gets
          | page |
          | a    |
        And marts.pages runs at 2020-01-07
        Then marts.pages at 2020-01-01 is empty
        """,
    )[2] == {"2020010105": 1}


def test_a_range_runs_each_of_its_windows(project: Project) -> None:
    assert placed(
        project,
        """
        Given the table raw.clicks is empty
        When marts.pages runs at 2020-01-30..2020-02-01
        Then marts.pages is empty
        """,
    )[1] == ["2020013000", "2020013100", "2020020100"]


def test_tables_upstream_of_given_tables_are_not_made(project: Project) -> None:
    found = script(
        project,
        """
        Given the table marts.sales is empty
        When marts.total runs
        Then marts.total is empty
        """,
    )

    assert found.given == {"marts.sales"}
    assert found.made == {"marts.sales", "marts.total"}
    assert found.runs == {"marts.total"}
    assert isinstance(found.actions[-1], ExpectedStep)


def test_rows_of_a_table_cannot_be_given_after_it_has_run(project: Project) -> None:
    steps = """
        Given the table marts.sales is empty
        When marts.total runs at 2020-01-01
        And the table marts.total at 2020-01-01 is now
          | orders |
          | 1      |
        And marts.total runs at 2020-01-02
        Then marts.total is empty
        """

    (error,) = wrong(project, scenario(steps))

    assert error.code == "E356"
    assert error.what == "marts.total has run, so its rows cannot be given any more"
