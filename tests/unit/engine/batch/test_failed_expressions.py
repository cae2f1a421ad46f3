from __future__ import annotations

from enum import Enum
from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.batch.failed_expressions import add_failed_expression
from waterclock.engine.spark.errors import to_error
from waterclock.errors import WaterclockError

FLOW = """CREATE CONNECTION landing TYPE files OPTIONS (path 'in');
COLLECT raw.sale PARTITIONED (id BIGINT KEY, cents STRING, at TIMESTAMP) FROM landing.sale
  EVERY DAY BY ARRIVAL TIME;
CREATE VIEW raw.seen AS
SELECT id, CAST(cents AS INT) AS cents FROM raw.sale;
TRANSFORM m.paid PARTITIONED AS
SELECT s.id, -- as it comes
  CAST(replace(s.cents, 'EUR ', '') AS INT) AS cents, 1 / s.id AS share
FROM raw.sale AS s;
TRANSFORM m.twice PARTITIONED AS
SELECT 1 / id AS a,
  1 / id AS b FROM raw.seen;
PUBLISH raw.sale (id, cents AS (CAST(cents AS BIGINT))) TO landing.out;
"""
WHERE = "m.paid@20130101000000"


class Kind(Enum):
    SQL = 0
    DataFrame = 1


class Context:
    """A fake of PySpark's query context of an error."""

    def __init__(self, text: str, kind: Kind = Kind.SQL) -> None:
        self.text, self.kind = text, kind

    def contextType(self) -> Kind:  # noqa: N802 - PySpark's name
        return self.kind

    def fragment(self) -> str:
        return self.text


class NumberFormatException(Exception):
    """A fake of PySpark's error for a row."""

    def __init__(self, condition: str, fragment: str, line: int, kind: Kind = Kind.SQL) -> None:
        heading = f"== SQL (line {line}, position 3) =="
        super().__init__(f"[{condition}] The value 'x' is malformed. SQLSTATE: 22018\n{heading}\n{fragment}\n")
        self.condition, self.context = condition, Context(fragment, kind)

    def getCondition(self) -> str:  # noqa: N802
        return self.condition

    def getQueryContext(self) -> list[Context]:  # noqa: N802
        return [self.context]


class AnalysisException(NumberFormatException):
    """A fake of PySpark's error for a query."""


def named(folder: Path, table: str, raised: Exception) -> WaterclockError:
    (folder / "flows").mkdir(exist_ok=True)
    (folder / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (folder / "flows" / "a.dpl").write_text(FLOW)
    project = load_project(folder, capabilities=capabilities())
    return add_failed_expression(to_error(raised, where=WHERE), raised, project, project.flow.tables[table])


def test_a_value_that_cannot_be_cast_names_the_expression_its_place_and_how_to_find_the_row(tmp_path: Path) -> None:
    cast = "CAST(replace(s.cents, 'EUR ', '') AS INT)"
    error = named(tmp_path, "m.paid", NumberFormatException("CAST_INVALID_INPUT", cast, 2))
    assert error.code == "E730"
    assert error.where == "flows/a.dpl:8:3"
    assert error.why == f"Spark reports CAST_INVALID_INPUT for {cast}"
    assert error.excerpt is not None
    assert error.excerpt.splitlines()[1].count("^") == len(cast)
    search = f'find the rows: waterclock query "SELECT * FROM raw.sale AS s WHERE TRY_{cast} IS NULL"; use try_divide'
    assert str(error.fix).startswith(search)


def test_of_two_places_the_one_of_the_line_is_named(tmp_path: Path) -> None:
    found = [named(tmp_path, "m.twice", NumberFormatException("DIVIDE_BY_ZERO", "1 / id", line)) for line in (1, 2)]
    assert [error.where for error in found] == ["flows/a.dpl:11:8", "flows/a.dpl:12:3"]
    assert str(found[0].fix).startswith("query raw.sale for the rows for which it fails; use try_divide")


def test_an_expression_of_a_view_is_named_where_the_view_is_declared(tmp_path: Path) -> None:
    error = named(tmp_path, "m.twice", NumberFormatException("CAST_INVALID_INPUT", "CAST(cents AS INT)", 1))
    assert error.where == "flows/a.dpl:5:12"
    assert 'query "SELECT * FROM raw.sale WHERE TRY_CAST(cents AS INT) IS NULL"' in str(error.fix)


def test_an_expression_of_a_column_list_is_named_by_its_column(tmp_path: Path) -> None:
    error = named(tmp_path, "landing.out", NumberFormatException("CAST_INVALID_INPUT", "CAST(cents AS BIGINT)", 1))
    assert str(error.where).startswith("flows/a.dpl:13:")
    assert "query raw.sale for the rows for which it fails" in str(error.fix)


@pytest.mark.parametrize(
    "raised",
    [
        NumberFormatException("CAST_INVALID_INPUT", "CAST(made AS INT)", 1),
        NumberFormatException("CAST_INVALID_INPUT", "cast", 1, Kind.DataFrame),
        AnalysisException("UNRESOLVED_COLUMN", "1 / s.id", 2),
        ValueError("no error of Spark's"),
    ],
)
def test_any_other_error_stays_as_it_is(tmp_path: Path, raised: Exception) -> None:
    error = named(tmp_path, "m.paid", raised)
    assert error.where == WHERE
    assert " for " not in str(error.why)
