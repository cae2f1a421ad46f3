"""HIDDEN columns in query results, compared with Spark on tables that physically do not have these columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.language.cases import CAPABILITIES, SETTINGS
from waterclock.dpl.adhoc import adhoc_query
from waterclock.dpl.project import load_project
from waterclock.dpl.query.splice import splice
from waterclock.flow.declarations import Flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
CREATE CONNECTION ops TYPE sqlite;
CREATE CONNECTION landing TYPE files;
CREATE CONNECTION out TYPE files;
COLLECT s.u (id INT, a STRING, f STRING HIDDEN, `nr` INT HIDDEN, *) FROM ops.u EVERY DAY;
COLLECT s.v (id INT, b STRING, f STRING) FROM ops.v EVERY DAY;
COLLECT s.w (id INT, a STRING, f STRING HIDDEN) FROM ops.w EVERY DAY;
CREATE VIEW s.all AS SELECT * FROM s.u;
CREATE VIEW s.named AS SELECT f AS file, * FROM s.u;
CREATE VIEW s.listed (a, id) AS SELECT * FROM s.u;
"""
ROWS = {
    "u": ("id INT, a STRING, f STRING, `nr` INT, timelabel STRING",
          [(1, "x", "p", 1, "l"), (2, "y", "q", 2, "l"), (2, "y", "r", 3, "l"), (3, None, "p", 4, "m")]),
    "v": ("id INT, b STRING, f STRING, timelabel STRING", [(1, "k", "p", "l"), (3, "m", "z", "l")]),
    "w": ("id INT, a STRING, f STRING, timelabel STRING", [(1, "x", "w1", "l"), (2, "y", "w2", "m")]),
}  # fmt: skip
HIDDEN = {"u": ("f", "nr"), "w": ("f",), "v": ()}

# the same text runs on tables without the columns
UNNAMED = [
    text.strip()
    for text in """
SELECT * FROM s.u
SELECT u.* FROM s.u
SELECT x.* FROM s.u x
SELECT X.* FROM s.u AS x
SELECT *, id + 1 AS more FROM s.u WHERE a IS NOT NULL ORDER BY id
SELECT DISTINCT * FROM s.u
SELECT count(*) AS n FROM s.u
SELECT count(DISTINCT *) AS n FROM s.u
SELECT struct(*) AS s FROM s.u
SELECT struct(x.*) AS s FROM s.u x
SELECT to_json(struct(x.*)) AS s FROM s.u x
SELECT * EXCEPT (a) FROM s.u
SELECT x.* EXCEPT (a) FROM s.u x
SELECT * FROM (SELECT * FROM s.u)
SELECT * FROM (SELECT * FROM s.u) t WHERE t.id = 2
WITH c AS (SELECT * FROM s.u) SELECT * FROM c
WITH c AS (SELECT * FROM s.u), d AS (SELECT id FROM c) SELECT * FROM c JOIN d USING (id)
SELECT * FROM s.u JOIN s.w ON u.id = w.id
SELECT * FROM s.u JOIN s.w USING (id, a)
SELECT * FROM s.u NATURAL JOIN s.w
SELECT * FROM s.u NATURAL LEFT JOIN s.v
SELECT id, b FROM s.u NATURAL JOIN s.v
SELECT * FROM s.u LEFT SEMI JOIN s.w ON u.id = w.id
SELECT * FROM s.v LEFT ANTI JOIN s.u ON u.id = v.id
SELECT * FROM s.u, s.w WHERE u.id = w.id
SELECT * FROM s.u one JOIN s.u two ON one.id = two.id
SELECT one.*, two.a AS b FROM s.u one JOIN s.u two ON one.id = two.id
SELECT * FROM (s.u JOIN s.v ON u.id = v.id)
SELECT * FROM s.u UNION ALL SELECT * FROM s.u
SELECT * FROM s.u UNION SELECT * FROM s.w
SELECT * FROM s.u INTERSECT SELECT * FROM s.w
SELECT * FROM s.u EXCEPT SELECT * FROM s.w
SELECT * FROM s.u MINUS SELECT id, a, timelabel FROM s.w
SELECT * FROM s.u t (one, two, three)
SELECT one FROM s.u AS t (one, two, three) WHERE three = 'l'
SELECT * FROM s.u PIVOT (count(1) FOR a IN ('x', 'y'))
SELECT * FROM (SELECT * FROM s.u) PIVOT (max(id) AS top FOR a IN ('x' AS ex, 'y' AS why))
SELECT * FROM s.u UNPIVOT (value FOR name IN (a, timelabel))
SELECT * FROM s.u LATERAL VIEW explode(array(1, 2)) e AS i
SELECT * FROM s.u, LATERAL (SELECT u.id + 1 AS next)
SELECT t.* FROM s.v, LATERAL (SELECT * FROM s.u WHERE u.id = v.id) t
SELECT x.id, l.* FROM s.u x, LATERAL (SELECT x.*) l
SELECT * FROM s.u WHERE EXISTS (SELECT * FROM s.w WHERE w.id = u.id)
SELECT * FROM s.u WHERE id IN (SELECT id FROM s.w)
SELECT *, (SELECT max(w.id) FROM s.w) AS top FROM s.u
SELECT *, row_number() OVER (PARTITION BY id ORDER BY a, timelabel) AS n FROM s.u
SELECT * FROM s.u QUALIFY count(*) OVER (PARTITION BY id) = 1
SELECT /*+ BROADCAST(w) */ * FROM s.u JOIN s.w USING (id)
SELECT 2 * id AS b, * FROM s.u
SELECT ALL * FROM s.u
SELECT * FROM s.u TABLESAMPLE (100 PERCENT)
SELECT * FROM s.u TABLESAMPLE (100 PERCENT) t WHERE t.id > 1
SELECT id, count(*) AS n FROM s.u GROUP BY ALL
SELECT * FROM s.u ORDER BY ALL LIMIT 2
SELECT * FROM s.all
SELECT t.* FROM s.all t JOIN s.v USING (id)
SELECT * FROM s.listed
FROM s.u SELECT *
FROM s.u |> WHERE id > 1
SELECT * FROM s.u |> WHERE id > 1 |> SELECT id, a
SELECT id FROM s.u WHERE extract(YEAR FROM DATE '2020-01-01') = 2020 AND a IS DISTINCT FROM 'x'
SELECT a.* FROM (SELECT id, a FROM s.u) a JOIN s.w ON a.a IS DISTINCT FROM w.a
SELECT inline(array(struct(x.*))) FROM s.u x
""".strip().splitlines()
]

# a query that names hidden columns, and the equivalent query over tables that have them all
NAMED = [
    pair.strip().split("\n")
    for pair in """
SELECT f FROM s.u
SELECT f FROM u

SELECT f, * FROM s.u
SELECT f, id, a, timelabel FROM u

SELECT *, `nr` AS n FROM s.u
SELECT id, a, timelabel, `nr` AS n FROM u

SELECT `NR`, F, * FROM s.u
SELECT `NR`, F, id, a, timelabel FROM u

SELECT x.f, x.* FROM s.u x
SELECT x.f, x.id, x.a, x.timelabel FROM u x

SELECT x.f, x.*, y.* FROM s.u x JOIN s.w y ON x.id = y.id
SELECT x.f, x.id, x.a, x.timelabel, y.id, y.a, y.timelabel FROM u x JOIN w y ON x.id = y.id

SELECT u.f, * FROM s.u JOIN s.v ON u.id = v.id
SELECT u.f, u.id, u.a, u.timelabel, v.* FROM u JOIN v ON u.id = v.id

SELECT * FROM s.u JOIN s.v ON u.f = v.f
SELECT u.id, u.a, u.timelabel, v.* FROM u JOIN v ON u.f = v.f

SELECT * FROM s.u JOIN s.w USING (f)
SELECT u.f, u.id, u.a, u.timelabel, w.id, w.a, w.timelabel FROM u JOIN w USING (f)

SELECT * FROM s.u JOIN s.v USING (id, f)
SELECT u.id, u.f, u.a, u.timelabel, v.b, v.timelabel FROM u JOIN v USING (id, f)

SELECT u.*, v.b FROM s.u JOIN s.v USING (f)
SELECT u.id, u.a, u.timelabel, v.b FROM u JOIN v ON u.f = v.f

SELECT * FROM s.v LEFT SEMI JOIN s.u ON u.f = v.f
SELECT * FROM v LEFT SEMI JOIN u ON u.f = v.f

SELECT * FROM s.u WHERE f = 'p'
SELECT id, a, timelabel FROM u WHERE f = 'p'

SELECT * FROM s.u ORDER BY f, id LIMIT 2
SELECT id, a, timelabel FROM u ORDER BY f, id LIMIT 2

SELECT DISTINCT *, f FROM s.u
SELECT DISTINCT id, a, timelabel, f FROM u

SELECT f, count(*) AS n, count(DISTINCT *) AS d FROM s.u GROUP BY f
SELECT f, count(*) AS n, count(DISTINCT id, a, timelabel) AS d FROM u GROUP BY f

SELECT f, struct(*) AS s, to_json(struct(u.*)) AS j FROM s.u
SELECT f, struct(id, a, timelabel) AS s, to_json(struct(id, a, timelabel)) AS j FROM u

SELECT * EXCEPT (a), f FROM s.u
SELECT id, timelabel, f FROM u

SELECT * EXCEPT (f, `nr`) FROM s.u
SELECT id, a, timelabel FROM u

SELECT u.* EXCEPT (a), w.* EXCEPT (id), u.f FROM s.u JOIN s.w ON u.id = w.id
SELECT u.id, u.timelabel, w.a, w.timelabel, u.f FROM u JOIN w ON u.id = w.id

SELECT a AS f, * FROM s.u
SELECT a AS f, id, a, timelabel FROM u

SELECT * FROM (SELECT f, * FROM s.u) WHERE f = 'p'
SELECT f, id, a, timelabel FROM u WHERE f = 'p'

WITH c AS (SELECT f, * FROM s.u) SELECT c.*, w.* FROM c JOIN s.w USING (id)
WITH c AS (SELECT f, id, a, timelabel FROM u) SELECT c.*, w.id, w.a, w.timelabel FROM c JOIN w USING (id)

SELECT * FROM s.u x WHERE EXISTS (SELECT * FROM s.w WHERE w.f = x.f OR w.id = x.id)
SELECT id, a, timelabel FROM u x WHERE EXISTS (SELECT * FROM w WHERE w.f = x.f OR w.id = x.id)

SELECT x.*, l.g FROM s.u x, LATERAL (SELECT x.f AS g) l
SELECT x.id, x.a, x.timelabel, l.g FROM u x, LATERAL (SELECT x.f AS g) l

SELECT *, row_number() OVER (PARTITION BY f ORDER BY id) AS n FROM s.u
SELECT id, a, timelabel, row_number() OVER (PARTITION BY f ORDER BY id) AS n FROM u

SELECT f, * FROM s.u UNION ALL SELECT f, * FROM s.w
SELECT f, id, a, timelabel FROM u UNION ALL SELECT f, id, a, timelabel FROM w

SELECT * FROM s.u PIVOT (max(a) FOR f IN ('p', 'q'))
SELECT * FROM (SELECT id, a, f, timelabel FROM u) PIVOT (max(a) FOR f IN ('p', 'q'))

SELECT * FROM s.u UNPIVOT (value FOR name IN (a, f))
SELECT * FROM (SELECT id, a, f, timelabel FROM u) UNPIVOT (value FOR name IN (a, f))

SELECT file, id FROM s.named
SELECT f AS file, id FROM u

SELECT * FROM s.named
SELECT f AS file, id, a, timelabel FROM u

SELECT f, s.* FROM (SELECT f, struct(*) AS s FROM s.u)
SELECT f, id, a, timelabel FROM u

SELECT *, 'f' AS text FROM s.u WHERE a <> 'f'
SELECT id, a, timelabel, 'f' AS text FROM u WHERE a <> 'f'
""".strip().split("\n\n")
]


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    root = tmp_path_factory.mktemp("hidden")
    (root / "flows").mkdir()
    (root / "waterclock.toml").write_text(SETTINGS, encoding="utf-8")
    (root / "flows/known.dpl").write_text(FLOW, encoding="utf-8")
    return load_project(root, capabilities=CAPABILITIES).flow


@pytest.fixture(scope="module")
def _tables(spark: SparkSession) -> None:
    for name, (columns, rows) in ROWS.items():
        frame = spark.createDataFrame(rows, columns)
        frame.createOrReplaceTempView(f"wc_{name}")
        frame.drop(*HIDDEN[name]).createOrReplaceTempView(f"seen_{name}")


def made(spark: SparkSession, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    frame = spark.sql(text)
    rows = [tuple(row) for row in frame.collect()]
    return frame.columns, rows if "ORDER BY f" in text else sorted(rows, key=repr)


def asked(spark: SparkSession, text: str, flow: Flow, prefix: str = "wc_") -> tuple[list[str], list[tuple[Any, ...]]]:
    spliced = splice(adhoc_query(text, flow), lambda read: f"{prefix}{str(read)[2:]}")
    return made(spark, spliced.text)


@pytest.mark.soak
@pytest.mark.usefixtures("_tables")
def test_queries_that_name_no_hidden_column_equal_those_on_tables_without_any(
    spark: SparkSession, flow: Flow, tmp_path: Path
) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(SETTINGS, encoding="utf-8")
    plain = FLOW.replace("f STRING HIDDEN, `nr` INT HIDDEN, ", "").replace(", f STRING HIDDEN", "")
    plain = plain.replace("f AS file, ", "")
    (tmp_path / "flows/known.dpl").write_text(plain, encoding="utf-8")
    without = load_project(tmp_path, capabilities=CAPABILITIES).flow
    wrong = {}
    for text in UNNAMED:
        try:
            told = asked(spark, text, flow), asked(spark, text, without, "seen_")
        except Exception as error:  # noqa: BLE001 - each failing shape is reported with its error
            wrong[text] = str(error)[:300]
            continue
        if told[0] != told[1]:
            wrong[text] = str(told)
    assert not wrong


@pytest.mark.usefixtures("_tables")
def test_named_hidden_columns_are_returned_but_are_in_no_star(spark: SparkSession, flow: Flow) -> None:
    wrong = {}
    for text, meant in NAMED:
        try:
            told = asked(spark, text, flow), made(spark, _over_all(meant))
        except Exception as error:  # noqa: BLE001
            wrong[text] = str(error)[:300]
            continue
        if told[0] != told[1]:
            wrong[text] = str(told)
    assert not wrong


def _over_all(text: str) -> str:
    """Return a query over the complete tables by their plain names."""
    tables = ", ".join(f"{name} AS (SELECT * FROM wc_{name})" for name in ROWS)
    return f"WITH {tables} {text}" if not text.startswith("WITH ") else f"WITH {tables}, {text.removeprefix('WITH ')}"
