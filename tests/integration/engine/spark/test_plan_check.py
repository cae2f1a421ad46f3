"""The allow lists of plans against Spark: its own functions pass, and new classes of its packages are noticed."""

from __future__ import annotations

import json
import re
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from waterclock.dpl.query import spark_functions
from waterclock.engine.spark.plan_check import check_plan, require_no_command
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
_QUERY = re.compile(r">\s+((?:SELECT|FROM|WITH|VALUES)[^;]*);", re.IGNORECASE)
# of Spark 4.2.0. After an upgrade of Spark, check new classes for calls of code and file access, then set the digest
_CLASSES_LOOKED_AT = "4267eb4339f9a052"


def _schema(metadata: dict[str, str]) -> str:
    field = {"name": "a", "type": "string", "nullable": True, "metadata": metadata}
    return json.dumps({"type": "struct", "fields": [field]})


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.sql("SELECT id, id AS k, array(id) AS many FROM range(3)").createOrReplaceTempView("t")
    return session


def refusal(session: SparkSession, text: str) -> str | None:
    """Return the name of the refused element; None if the query passes."""
    try:
        require_no_command(session, text)
        check_plan(session.sql(text))
    except WaterclockError as error:
        return str(re.findall(r"uses (.*) in Spark's plan, which", str(error))[0])
    return None


def functions(registry: Any) -> dict[str, str]:
    """Return Spark's functions with their examples."""
    names, found = registry.listFunction().iterator(), {}
    while names.hasNext():
        told = registry.lookupFunction(names.next()).get()
        found[told.getName()] = told.getExamples()
    return found


def test_the_examples_of_sparks_own_functions_pass(session: SparkSession) -> None:
    state = session._jsparkSession.sessionState()
    found = {**functions(state.functionRegistry()), **functions(state.tableFunctionRegistry())}
    refused: dict[str, str | None] = {}
    passed = 0
    for name, examples in found.items():
        for text in _QUERY.findall(examples):
            try:
                said = refusal(session, text)
            except Exception:  # noqa: BLE001 - examples of disabled types and of missing files
                continue
            passed += said is None
            if said is not None:
                refused[name] = said
    assert refused == {
        "reflect": "CallMethodViaReflection", "java_method": "CallMethodViaReflection", "try_reflect": "TryReflect",
    }  # fmt: skip
    assert passed > 1000


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, count(*) FROM t GROUP BY ROLLUP (k) HAVING count(*) > 0 ORDER BY ALL LIMIT 3 OFFSET 1",
        "SELECT * FROM t PIVOT (sum(id) FOR k IN (1, 2))",
        "SELECT * FROM t UNPIVOT (v FOR n IN (id, k))",
        "SELECT id, sum(id) OVER w FROM t WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
        "SELECT * FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY id) = 1",
        "SELECT a.id FROM t a LEFT ANTI JOIN t b ON a.id = b.k CROSS JOIN (VALUES (1), (2)) v(x)",
        "SELECT * FROM t, LATERAL (SELECT explode(t.many)) x(one)",
        "SELECT * FROM t LATERAL VIEW OUTER posexplode(many) x AS p, q",
        "SELECT * FROM t EXCEPT ALL SELECT * FROM t INTERSECT SELECT * FROM t MINUS SELECT * FROM t",
        "SELECT /*+ REPARTITION(2, k), BROADCAST(t) */ id FROM t DISTRIBUTE BY id SORT BY id",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
        "WITH a AS (SELECT * FROM t), b AS (TABLE a) SELECT (SELECT max(id) FROM b), id IN (SELECT id FROM a) FROM b",
        "FROM t |> WHERE id > 0 |> EXTEND id + 1 AS n |> AGGREGATE sum(n) AS s GROUP BY k |> ORDER BY s |> LIMIT 1",
        "FROM t |> AS x |> SET id = x.id + 1, k = id |> DROP many |> WHERE k > 0",
        "SELECT id, id + 1 AS n FROM t |> WHERE n > 1 |> EXTEND n + 1 AS m |> WHERE t.id > 1 OR m > 2",
        "SELECT window.start AS s, count(*) AS n FROM t GROUP BY window(timestamp_seconds(id), '1 day')",
        "SELECT session_window.end AS e, k FROM t GROUP BY session_window(timestamp_seconds(id), '6 hours'), k",
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM t x WHERE x.id = t.k) THEN 1 END FROM t",
        "SELECT transform(many, (v, i) -> v + i) FROM t",
        "SELECT DATE'2020-01-31' + INTERVAL 1 MONTH, TIMESTAMP'2020-01-01' - INTERVAL '1' DAY",
        "SELECT INTERVAL '1-2' YEAR TO MONTH * 2",
        "SELECT CAST('1' AS DECIMAL(38, 10)) * 2 / 3, try_cast('x' AS INT), '1' :: INT",
        "SELECT -id, NOT (id = 1), id <=> k FROM t",
        "SELECT * FROM t TABLESAMPLE (50 PERCENT)",
        "SELECT many[0], many[0] IS DISTINCT FROM k, named_struct('a', 1).a, map('k', 1)['k'] FROM t",
        "SELECT `id`, count(*) FILTER (WHERE k > 0) FROM t GROUP BY id",
        "SELECT listagg(DISTINCT CAST(k AS STRING)) WITHIN GROUP (ORDER BY CAST(k AS STRING)) FROM t",
        "SELECT stack(2, 1, 2) AS (a)", "VALUES (1), (2)", "TABLE t", "(SELECT 1) UNION ALL (SELECT 1)",
    ],
)  # fmt: skip
def test_queries_that_read_pass(text: str, session: SparkSession) -> None:
    assert refusal(session, text) is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT TRANSFORM(id) USING 'cat' AS (x STRING) FROM t", "ScriptTransformation"),
        ("WITH a AS (SELECT TRANSFORM(id) USING 'cat' AS (x STRING) FROM t) SELECT * FROM a", "ScriptTransformation"),
        ("SELECT (SELECT reflect('java.lang.Math', 'abs', 1))", "CallMethodViaReflection"),
        ("SELECT CASE WHEN true THEN reflect('java.lang.Math', 'abs', 1) END", "CallMethodViaReflection"),
        ("SELECT transform(array(1), x -> reflect('java.lang.Math', 'abs', x))", "CallMethodViaReflection"),
        ("SELECT * FROM text.`{file}`", "LogicalRelation"),
        ("SELECT id FROM t WHERE EXISTS (SELECT * FROM text.`{file}`)", "LogicalRelation"),
        (f"SELECT from_csv('1', '{_schema({'EXISTS_DEFAULT': '1'})}')", "a default as SQL"),
        (f"SELECT from_json('1', '{_schema({'CURRENT_DEFAULT': '1'})}')", "a default as SQL"),
        ("SET a = 1", "SetCommand"),
        ("WITH a AS (SELECT 1 AS id) INSERT INTO x SELECT * FROM a", "InsertIntoStatement"),
    ],
)
def test_plans_with_operations_outside_the_allow_list_are_refused(
    text: str, what: str, session: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert refusal(session, text.replace("{file}", str(tmp_path / "file"))) == what


def test_a_permanent_view_is_not_one_of_ours(session: SparkSession) -> None:
    session.sql("CREATE OR REPLACE VIEW default.stranger AS SELECT 1 AS a")
    try:
        assert refusal(session, "SELECT * FROM default.stranger") == "a view of the catalog"
    finally:
        session.sql("DROP VIEW default.stranger")


def test_the_functions_that_rows_come_from_are_sparks(session: SparkSession) -> None:
    registry = session._jsparkSession.sessionState().tableFunctionRegistry()
    refused = {"python_worker_logs", "table_changes", "table_changes_by_path"}
    names, found = registry.listFunction().iterator(), set()
    while names.hasNext():
        found.add(names.next().funcName())
    assert found - refused == spark_functions.TABLE_FUNCTIONS


def test_the_expression_classes_of_spark_are_those_that_were_reviewed() -> None:
    [jar] = Path(pyspark.__file__).parent.glob("jars/spark-catalyst_*.jar")
    folder = "org/apache/spark/sql/catalyst/expressions/"
    names = zipfile.ZipFile(jar).namelist()
    classes = sorted(name for name in names if name.startswith(folder) and "$" not in name and "objects/" not in name)
    assert sha256("\n".join(classes).encode()).hexdigest()[:16] == _CLASSES_LOOKED_AT
