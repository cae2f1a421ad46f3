"""Queries that try to see more of shop.people than is granted, and honest ones.

Granted are id, boss, at, land and the masked email of shop.people, only for rows of the reader's land, and nothing of
shop.wages.
"""

from __future__ import annotations

from itertools import product

# where a value of a row that is not granted, or of a column that is hidden or masked, might come through
VALUES = (
    "pay", "p.pay", "people.pay", "`PAY`", "struct(p.*).pay", "to_json(struct(*))", "sum(pay)", "max(email)",
    "max_by(email, id)", "count(*)", "count(DISTINCT email)", "collect_list(struct(p.*))", "min(p.land)",
    "(SELECT max(pay) FROM shop.wages)", "(SELECT max(amount) FROM shop.wages)", "IDENTIFIER('p' || 'ay')",
    "IDENTIFIER('shop.wages')", "raise_error(p.email)", "assert_true(p.id > 9, p.email)", "fail_with(p.email)",
    "generalize(p.email, width => p.email)", "in_python(p.email)", "input_file_name()", "_metadata.file_path",
    "_metadata", "p._metadata.row_index", "CAST(p.email AS INT)", "1 / (p.id - 1)", "decrypt(p.email, 'pii')",
    "hash_keyed(p.email, 'pii')", "USER('land')", "current_user()", "typeof(pay)",
)  # fmt: skip
PLACES = (
    "SELECT {it} AS x FROM shop.people p",
    "SELECT id FROM shop.people p ORDER BY {it}",
    "SELECT id FROM shop.people p WHERE {it} IS NOT NULL",
    "WITH a AS (SELECT {it} AS x FROM shop.people p) SELECT * FROM a",
    "SELECT count(*) FROM shop.people p HAVING max({it}) IS NOT NULL",
    "FROM shop.people p |> SELECT {it} AS x",
    "SELECT id FROM shop.people p WHERE EXISTS (SELECT {it} AS x FROM shop.people)",
    "SELECT l.x FROM shop.people p, LATERAL (SELECT {it} AS x) l",
    "SELECT x FROM (SELECT {it} AS x FROM shop.people p) GROUP BY ALL",
)
TABLES = (
    "shop.wages", "SHOP.WAGES", "`shop`.`wages`", "shop.people_quarantine", "shop.people_held", "shop.wages_view",
    "shop.wages_held", "stg.wages", "waterclock.batches", "waterclock.measures", "waterclock.events",
    "shop.people VERSION AS OF 0", "shop.people TIMESTAMP AS OF '2020-01-01'", "HISTORY(shop.people)",
    "PREVIOUS(shop.wages)", "FLAT(shop.wages)", "IDENTIFIER('shop.wages')", "TABLE shop.wages", "wc_0", "wc_1",
    "wc_keys", "range(3)", "global_temp.wc_0", "delta.`shop/wages`", "spark_catalog.shop.wages",
)  # fmt: skip
PLACES_OF_TABLES = (
    "SELECT * FROM {it}",
    "SELECT (SELECT count(*) FROM {it}) AS n",
    "WITH people AS (SELECT * FROM {it}) SELECT * FROM people",
    "SELECT id FROM shop.people WHERE id IN (SELECT id FROM {it})",
    "SELECT p.id FROM shop.people p NATURAL JOIN {it}",
    "SELECT * FROM shop.people UNION ALL SELECT * FROM {it}",
    "SELECT p.id FROM shop.people p, LATERAL (SELECT * FROM {it}) l",
)
# Spark infers the condition for a column from that for an equal one, and would evaluate it before the grant's condition
_EQUAL = "id = boss AND 1 / (id - 5550002) > -5"
WHOLE = (
    f"SELECT id FROM shop.people WHERE {_EQUAL}",
    f"SELECT DISTINCT boss FROM shop.people_view WHERE {_EQUAL}",
    f"SELECT id FROM shop.people GROUP BY id, boss HAVING {_EQUAL}",
    f"SELECT a.id FROM (SELECT id, boss FROM shop.people) a WHERE {_EQUAL}",
    "SELECT * FROM shop.people",
    "SELECT * FROM shop.people_view",
    "SELECT * FROM stg.people",
    "SELECT * FROM stg.secret",
    "SELECT p.* FROM shop.people p JOIN shop.people q USING (id)",
    "SELECT * FROM shop.people PIVOT (max(email) FOR land IN ('DE', 'FR'))",
    "SELECT * FROM shop.people UNPIVOT (x FOR y IN (email, land))",
    "SELECT * FROM shop.people UNPIVOT (x FOR y IN (email, pay))",
    "WITH shop AS (SELECT 1) SELECT * FROM shop.people",
    "WITH wages AS (SELECT * FROM shop.people) SELECT * FROM wages",
    "SELECT id, row_number() OVER (ORDER BY email) AS n FROM shop.people",
    "SELECT id, lag(land) OVER (ORDER BY id) AS n FROM shop.people",
    "SELECT land, count(*) FROM shop.people GROUP BY land WITH ROLLUP",
    "SELECT id, monotonically_increasing_id() AS n FROM shop.people ORDER BY id",
    "SELECT * EXCEPT (email) FROM shop.people",
    "SELECT * FROM shop.people WHERE land = 'FR' OR TRUE",
    "SELECT * FROM shop.people WHERE NOT (land = 'DE')",
    "SELECT * FROM shop.people LEFT ANTI JOIN shop.open USING (id)",
    "SELECT * FROM shop.open o FULL JOIN shop.people p ON o.id = p.id",
    "SELECT count(*), count(email), max(length(email)) FROM shop.people",
    "SELECT * FROM shop.people TABLESAMPLE (100 PERCENT)",
    "SELECT inline(array(struct(p.*))) FROM shop.people p",
    "SELECT id FROM shop.people WHERE try_divide(1, id - 3) IS NULL",
    "SELECT id FROM shop.people WHERE 1 / (id - 3) > 0 OR TRUE",
    "SELECT id FROM shop.people WHERE CAST(land AS INT) > 0",
    # only the second project has a row with this id, and a label with only rows of other users
    "SELECT id FROM shop.people WHERE 1 / (id - 5) > 5",
    "SELECT id FROM shop.people WHERE 1 / (id - 9) > 5",
    "SELECT id FROM shop.people WHERE land = 'FR' AND 1 / (id - 5) > 5",
    "SELECT id FROM shop.people WHERE (land = 'DE' OR 1 / (id - 5) > 5) AND (land = 'DE' OR 1 / (id - 5) > 6)",
    "SELECT p.id FROM (SELECT id, 1 / (id - 5) AS x FROM shop.people) p JOIN shop.open o ON p.x > o.id",
    "SELECT id FROM shop.people WHERE 1 / (CAST(timelabel AS BIGINT) - 20200102000000) > 5",
    "SELECT id FROM shop.people WHERE CASE WHEN timelabel = '20200102000000' THEN 1 / 0 ELSE 1 END > 0",
    "SELECT max(timelabel), min(timelabel) FROM shop.people",
    "SELECT timelabel, count(*) FROM shop.people GROUP BY timelabel",
    "SELECT id FROM shop.people WHERE CASE WHEN land = 'FR' THEN raise_error('x') END",
    "SELECT id FROM (SELECT id, at FROM shop.people) ORDER BY pay",
    "SELECT id FROM shop.people ORDER BY land DESC LIMIT 1",
)
HONEST = (
    "SELECT * FROM shop.people",
    "SELECT id, email FROM shop.people ORDER BY id LIMIT 2",
    "SELECT land, count(*) AS n, max(at) FROM shop.people GROUP BY land HAVING n > 0",
    "WITH a AS (SELECT id, land FROM shop.people) SELECT a.*, o.name FROM a JOIN shop.open o USING (id)",
    "SELECT o.name FROM shop.open o WHERE EXISTS (SELECT 1 FROM shop.people p WHERE p.id = o.id)",
    "SELECT id, rank() OVER (PARTITION BY land ORDER BY at) AS n FROM shop.people",
    "SELECT (SELECT count(*) FROM shop.people) AS n, name FROM shop.open",
    "SELECT id, date_format(at, 'yyyy-MM') AS month, upper(email) AS mail FROM shop.people WHERE id BETWEEN 1 AND 9",
    "SELECT * FROM shop.people_view WHERE timelabel >= '20200101000000'",
    "SELECT p.id, q.land FROM shop.people p CROSS JOIN shop.people q",
    "SELECT id FROM shop.people UNION SELECT id FROM shop.open EXCEPT SELECT 3",
    "FROM shop.people |> WHERE land = 'DE' |> AGGREGATE count(*) AS n",
    "SELECT name, struct(id, name) AS s FROM shop.open",
    "SELECT mask_text(name) AS m FROM shop.open",
    "SELECT * FROM stg.people",
    "SELECT * FROM shop.open_held",
    "SELECT p.id, l.n FROM shop.people p, LATERAL (SELECT p.id + 1 AS n) l",
    "SELECT explode(array(id, 2)) AS n FROM shop.people",
    "SELECT * FROM shop.people PIVOT (count(id) FOR land IN ('DE'))",
    "SELECT try_divide(1, id) AS x, try_cast(land AS INT) AS y FROM shop.people",
)
"""Queries of a user who sees shop.people restricted, which must not be refused."""


def attacks() -> list[str]:
    """Return each value in each place, each table in each place, and the whole queries."""
    return [
        *(place.replace("{it}", it) for place, it in product(PLACES, VALUES)),
        *(place.replace("{it}", it) for place, it in product(PLACES_OF_TABLES, TABLES)),
        *WHOLE,
    ]
