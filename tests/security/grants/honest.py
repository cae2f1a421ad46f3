"""Everyday queries about a table with a grant and an open one, which the gates should accept."""

from __future__ import annotations

from itertools import product

EXPRESSIONS = (
    "count(*)",
    "count(DISTINCT land)",
    "max(at) - min(at)",
    "avg(id)",
    "sum(CASE WHEN land = 'DE' THEN 1 ELSE 0 END)",
    "count_if(email IS NULL)",
    "count(*) FILTER (WHERE id > 1)",
    "percentile_approx(id, 0.5)",
    "collect_set(land)",
    "string_agg(email, ', ')",
    "max_by(email, at)",
    "min(struct(at, id))",
    "approx_count_distinct(email)",
    "stddev(id)",
    "any_value(land)",
)
GROUPED = (
    "SELECT {it} AS x FROM shop.people",
    "SELECT land, {it} AS x FROM shop.people GROUP BY land ORDER BY land",
    "SELECT date_trunc('month', at) AS month, {it} AS x FROM shop.people WHERE id > 0 GROUP BY 1 HAVING count(*) > 0",
)
VALUES = (
    "upper(email)",
    "concat_ws(' ', land, email)",
    "coalesce(email, 'none')",
    "CASE land WHEN 'DE' THEN 'Germany' ELSE 'other' END",
    "date_format(at, 'yyyy-MM-dd')",
    "year(at) * 100 + month(at)",
    "datediff(DAY, at, TIMESTAMP'2020-02-01')",
    "at + INTERVAL 1 DAY",
    "from_utc_timestamp(at, 'Europe/Berlin')",
    "split_part(email, '@', 2)",
    "regexp_replace(email, '[^@]', '*')",
    "substring(email, 1, 3)",
    "length(email) > 3",
    "id BETWEEN 1 AND 3",
    "land IN ('DE', 'FR')",
    "email LIKE '%@%'",
    "CAST(id AS STRING)",
    "try_cast(email AS INT)",
    "round(id / 3.0, 2)",
    "greatest(id, boss)",
    "nullif(land, 'DE')",
    "array(id, boss)[0]",
    "named_struct('a', id, 'b', land).b",
    "map('a', id)['a']",
    "to_json(struct(id, land))",
    "sha2(email, 256)",
    "row_number() OVER (ORDER BY at)",
    "lag(id) OVER (PARTITION BY land ORDER BY at)",
    "sum(id) OVER (ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "mask_text(email)",
)
PLAIN = (
    "SELECT id, {it} AS x FROM shop.people ORDER BY id LIMIT 10",
    "WITH p AS (SELECT id, {it} AS x FROM shop.people) SELECT x, count(*) AS n FROM p GROUP BY x",
    "SELECT o.name, p.x FROM shop.open o LEFT JOIN (SELECT id, {it} AS x FROM shop.people) p ON p.id = o.id",
)
FAILING = (
    "SELECT generalize(at, to => 'month') AS month, count(*) AS n FROM shop.people GROUP BY month",
    "SELECT key_of(id, land) AS k, id FROM shop.people",
)
"""Calls of functions that can fail for a row; they are refused to a restricted user, as documented."""

WHOLE = (
    "SELECT DISTINCT land FROM shop.people",
    "SELECT * FROM shop.people WHERE at >= '2020-01-01' AND at < '2020-02-01'",
    "SELECT p.*, o.name FROM shop.people p JOIN shop.open o ON o.id = p.id",
    "SELECT p.id FROM shop.people p LEFT ANTI JOIN shop.open o ON o.id = p.id",
    "SELECT p.id FROM shop.people p LEFT SEMI JOIN shop.open o ON o.id = p.id",
    "SELECT a.id, b.id AS other FROM shop.people a JOIN shop.people b ON a.land = b.land AND a.id < b.id",
    "SELECT id FROM shop.people WHERE id NOT IN (SELECT id FROM shop.open)",
    "SELECT id FROM shop.people p WHERE at = (SELECT max(at) FROM shop.people q WHERE q.land = p.land)",
    "SELECT land, count(*) AS n FROM shop.people GROUP BY ROLLUP (land)",
    "SELECT land, boss, count(*) AS n FROM shop.people GROUP BY CUBE (land, boss)",
    "SELECT land, boss, count(*) AS n FROM shop.people GROUP BY GROUPING SETS ((land), (boss), ())",
    "SELECT id FROM shop.people INTERSECT SELECT id FROM shop.open",
    "SELECT id, 'people' AS of FROM shop.people UNION ALL SELECT id, 'open' FROM shop.open",
    "SELECT id, land FROM shop.people UNION ALL BY NAME SELECT land, id FROM shop.people",
    "SELECT * FROM (SELECT id, rank() OVER (ORDER BY at DESC) AS n FROM shop.people) WHERE n <= 3",
    "SELECT id FROM shop.people QUALIFY row_number() OVER (PARTITION BY land ORDER BY at DESC) = 1",
    "SELECT timelabel, count(*) AS n FROM shop.people GROUP BY timelabel ORDER BY timelabel",
    "SELECT x FROM shop.people LATERAL VIEW explode(split(email, '@')) t AS x",
    "SELECT p.id, t.x FROM shop.people p, LATERAL explode(array(p.id, p.boss)) AS t(x)",
    "VALUES (1, 'a'), (2, 'b')",
    "SELECT 1 AS one",
    "SELECT current_date() AS today, current_timestamp() AS now",
    "SELECT name FROM shop.open WHERE name ILIKE 'O%' ORDER BY name DESC NULLS LAST LIMIT 5 OFFSET 0",
    "SELECT * EXCEPT (at) FROM shop.open",
    "SELECT count(*) AS n FROM shop.open TABLESAMPLE (50 PERCENT)",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n",
    "SELECT * FROM shop.people UNPIVOT (v FOR c IN (id, boss))",
    "FROM shop.people |> EXTEND id * 2 AS twice |> WHERE twice > 2 |> SELECT id, twice |> ORDER BY id |> LIMIT 3",
    "SELECT aggregate(sequence(1, id), 0L, (s, x) -> s + x) AS s FROM shop.people",
    "SELECT transform(array(id, boss), x -> x + 1) AS l FROM shop.people",
    *FAILING,
)


def honest_queries() -> list[str]:
    """Return each expression in each place that its kind allows, and the whole queries."""
    return [
        *(place.replace("{it}", it) for place, it in product(GROUPED, EXPRESSIONS)),
        *(place.replace("{it}", it) for place, it in product(PLAIN, VALUES)),
        *WHOLE,
    ]
