from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.language.cases import CAPABILITIES, KNOWN, SETTINGS
from waterclock.dpl.project import Project, load_project
from waterclock.engine.batch.window_rows import _python_rows, _Window
from waterclock.engine.spark.user_functions import register_functions
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Read
from waterclock.flow.enums import ReadKind
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
FLOW = """\
from __future__ import annotations

from decimal import Decimal

import waterclock as wc
from flows.rates import nothing, rate


@wc.function("dollars", returns="DECIMAL(16,2)")
def dollars(cents: int | None) -> Decimal | None:
    assert cents is None or type(cents) is int
    return None if cents is None else Decimal(cents) / rate()


wc.function("halved", parameters="amount DOUBLE", returns="DECIMAL(16,2)", return_="dollars(amount / 2)")


@wc.transform("marts.a", partitioned=True)
def a(
    orders: wc.DataFrame = wc.table("raw.orders"),
    open_ones: wc.DataFrame = wc.table("stg.open"),
    before: wc.DataFrame = wc.past("stg.open", "2 days"),
    *,
    late: int = wc.var("late_minutes"),
    window: wc.Window,
) -> wc.DataFrame:
    from pyspark.sql import functions as sql

    from flows.rates import rate

    counted = sql.udf(lambda n: int(n * rate()), "BIGINT")
    return orders.agg(sql.count("*").alias("n")).select(
        counted("n").alias("n"),
        sql.lit(open_ones.count()).alias("open"),
        sql.lit(before.count()).alias("before"),
        sql.lit(late).alias("late"),
        sql.lit(window.label).alias("label"),
    )


@wc.transform("marts.b", partitioned=True)
def b(orders: wc.DataFrame = wc.table("raw.orders")) -> wc.DataFrame:
    return orders.count()


@wc.transform("marts.c", partitioned=True)
def c(orders: wc.DataFrame = wc.table("raw.orders")) -> wc.DataFrame:
    return orders.where(orders.amount > nothing())
"""
RATES = "def rate():\n    return 100\n\n\ndef nothing():\n    return 1 / 0\n"
WINDOW = Window(datetime(2024, 1, 2, tzinfo=UTC), datetime(2024, 1, 3, tzinfo=UTC))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    files = {"waterclock.toml": SETTINGS, "flows/known.dpl": KNOWN, "flows/code.py": FLOW, "flows/rates.py": RATES}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return load_project(tmp_path, capabilities=CAPABILITIES)


def rows_of(project: Project, spark: SparkSession, table: str) -> DataFrame:
    """Return the rows that a Python function makes from two orders of today, one of them open, and three older ones."""
    columns = "id BIGINT, amount DOUBLE"
    frames = {
        Read("raw.orders"): spark.createDataFrame([(1, 5.0), (2, 0.0)], columns),
        Read("raw.orders", ReadKind.PAST, Duration(2, "DAY")): spark.createDataFrame(
            [(1, 5.0), (2, 0.0), (3, 1.0), (4, 1.0), (5, 0.0)], columns
        ),
    }
    work: Any = SimpleNamespace(project=project, flow=project.flow, root=project.root, keys=None)
    function = project.flow.tables[table].function
    assert function is not None
    return _python_rows(
        work, spark, function, _Window(WINDOW, is_partial=False), dict(frames), f"{table}@{WINDOW.label}"
    )


def test_a_function_is_called_with_tables_views_values_and_its_window(project: Project, spark: SparkSession) -> None:
    [row] = rows_of(project, spark.newSession(), "marts.a").collect()
    assert row.asDict() == {"n": 200, "open": 1, "before": 3, "late": 15, "label": "20240102000000"}


def test_invalid_results_and_user_exceptions_are_reported_with_table_and_label(
    project: Project, spark: SparkSession
) -> None:
    with pytest.raises(WaterclockError) as wrong:
        rows_of(project, spark.newSession(), "marts.b")
    assert (wrong.value.code, wrong.value.where) == ("E722", "flows/code.py (marts.b@20240102000000)")
    with pytest.raises(WaterclockError) as raised:
        rows_of(project, spark.newSession(), "marts.c")
    assert raised.value.what == "ZeroDivisionError: division by zero"
    assert raised.value.where == "flows/rates.py:6 (marts.c@20240102000000)"
    assert raised.value.why == (
        "flows/rates.py:6 in nothing: return 1 / 0; called from flows/code.py:48 in c: "
        "return orders.where(orders.amount > nothing())"
    )


def test_python_functions_in_queries_use_their_declared_types(project: Project, spark: SparkSession) -> None:
    session = spark.newSession()
    values = "dollars(id) AS a, dollars('55') AS b, dollars(12.7BD) AS c, dollars(NULL) AS d, halved(8) AS e"
    query = f"SELECT {values} FROM range(2)"
    register_functions(session, project.root, project.flow, [query])
    frame = session.sql(query)
    assert {kind for _, kind in frame.dtypes} == {"decimal(16,2)"}
    rest = (Decimal("0.55"), Decimal("0.12"), None, Decimal("0.04"))
    assert sorted(tuple(row) for row in frame.collect()) == [(Decimal("0.00"), *rest), (Decimal("0.01"), *rest)]
