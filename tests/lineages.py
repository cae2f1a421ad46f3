"""Queries with the inputs of their columns, written by hand: for the lineage alone, and against Spark's values."""

from __future__ import annotations

T = {
    "id": "INT", "v": "INT", "n": "INT", "name": "STRING", "arr": "ARRAY<INT>", "s": "STRUCT<a: INT, b: STRING>",
    "items": "ARRAY<STRUCT<p: INT, q: STRING>>", "m": "MAP<STRING, INT>", "j": "STRING",
}  # fmt: skip
U = {"id": "INT", "w": "INT", "label": "STRING"}
UNTOLD = "?"

# columns of raw.t have their plain names, those of raw.u are u.NAME; UNTOLD: reported as unknown
CASES: dict[str, dict[str, str]] = {
    "SELECT v + n AS x, upper(name) AS y FROM raw.t": {"x": "v n", "y": "name"},
    "SELECT l.x FROM raw.t, LATERAL (SELECT v + 1 AS x) l": {"x": "v"},
    "SELECT l.* FROM raw.t, LATERAL (SELECT t.v AS x, 1 AS y) l": {"x": "v", "y": ""},
    "SELECT l.top FROM raw.t LEFT JOIN LATERAL (SELECT max(w + t.v) AS top FROM raw.u WHERE u.id = t.id) l": {
        "top": "u.w v"
    },
    "SELECT d.* FROM (SELECT from_json(j, 'p INT, q STRING') AS d FROM raw.t)": {"p": "j", "q": "j"},
    "SELECT s.* FROM raw.t": {"a": "s", "b": "s"},
    "SELECT t.s.*, v AS z FROM raw.t": {"a": "s", "b": "s", "z": "v"},
    "SELECT z.* FROM (SELECT s AS z FROM raw.t) z": {"z": "s"},
    "SELECT s.a, t.s.b AS c, name FROM raw.t": {"a": "s", "c": "s", "name": "name"},
    "SELECT m['k'] AS x, arr[0] AS y, items[0].p AS z FROM raw.t": {"x": "m", "y": "arr", "z": "items"},
    "SELECT stack(2, v, 'v', n, name) AS (x, y) FROM raw.t": {"x": "v n", "y": "name"},
    "SELECT posexplode(arr) AS (p, x), name FROM raw.t": {"p": "arr", "x": "arr", "name": "name"},
    "SELECT posexplode(arr) FROM raw.t": {"pos": "arr", "col": "arr"},
    "SELECT inline(items) AS (x, y) FROM raw.t": {"x": "items", "y": "items"},
    "SELECT inline(items), v FROM raw.t": {"p": "items", "q": "items", "v": "v"},
    "SELECT explode(arr) AS x, v FROM raw.t": {"x": "arr", "v": "v"},
    "SELECT explode(m) AS (x, y) FROM raw.t": {"x": "m", "y": "m"},
    "SELECT json_tuple(j, 'p', 'q') AS (x, y) FROM raw.t": {"x": "j", "y": "j"},
    "SELECT v, x FROM raw.t LATERAL VIEW explode(arr) e AS x": {"v": "v", "x": "arr"},
    "SELECT e.x, e.p AS y FROM raw.t LATERAL VIEW posexplode(arr) e AS p, x": {"x": "arr", "y": "arr"},
    "SELECT v, col FROM raw.t LATERAL VIEW explode(arr) e": {"v": "v", "col": "arr"},
    "SELECT g.p, g.q, v FROM raw.t, LATERAL inline(items) g": {"p": "items", "q": "items", "v": "v"},
    "SELECT z + v AS x FROM raw.t, LATERAL explode(arr) AS g(z)": {"x": "arr v"},
    "SELECT sum(v) OVER w AS x, max(n) OVER (PARTITION BY id) AS y FROM raw.t "
    "WINDOW w AS (PARTITION BY id ORDER BY n)": (
        {"x": "v id n", "y": "n id"}
    ),
    "SELECT row_number() OVER w AS x FROM raw.t WINDOW w AS (ORDER BY v, id)": {"x": "v id"},
    "SELECT v AS a, a + n AS b FROM raw.t": {"a": "v", "b": "v n"},
    "SELECT transform(arr, e -> e + v) AS x, aggregate(arr, 0, (a, e) -> a + e) AS y FROM raw.t": {
        "x": "arr v", "y": "arr",
    },
    "SELECT x, y FROM (SELECT id AS x, w AS y FROM raw.u UNION ALL SELECT v, n FROM raw.t)": {
        "x": "u.id v", "y": "u.w n",
    },
    "SELECT id, w FROM raw.t JOIN raw.u USING (id)": {"id": "id", "w": "u.w"},
    "SELECT id, w FROM raw.t RIGHT JOIN raw.u USING (id)": {"id": "u.id", "w": "u.w"},
    "SELECT id, w FROM raw.t FULL JOIN raw.u USING (id)": {"id": "id u.id", "w": "u.w"},
    "SELECT v, (SELECT max(w) FROM raw.u) AS x, v IN (SELECT w FROM raw.u) AS y FROM raw.t": {
        "v": "v", "x": "u.w", "y": "v u.w",
    },
    "SELECT EXISTS (SELECT 1 FROM raw.u WHERE u.w = t.v) AS x, n FROM raw.t": {"x": "u.w v", "n": "n"},
    "SELECT t.* EXCEPT (id, arr, s, items, m, j), w FROM raw.t JOIN raw.u ON u.id = t.id": {
        "v": "v", "n": "n", "name": "name", "w": "u.w",
    },
    "SELECT struct(v, n) AS x, struct(u.*) AS y FROM raw.t JOIN raw.u ON u.id = t.id": {
        "x": "v n", "y": "u.id u.w u.label u.timelabel",
    },
    "SELECT id, count(*) AS c, sum(v) FILTER (WHERE n > 0) AS x FROM raw.t GROUP BY id": {
        "id": "id", "c": "", "x": "v n",
    },
    "SELECT a, b FROM VALUES (1, 'x'), (2, 'y') AS w(a, b)": {"a": "", "b": ""},
    "SELECT * FROM (SELECT id, v FROM raw.t) PIVOT (sum(v) AS sv FOR id IN (1 AS one, 2 AS two))": {"one": UNTOLD},
    "WITH RECURSIVE r AS (SELECT id, v AS x FROM raw.t UNION ALL SELECT id + 1, x + 1 FROM r WHERE id < 3) "
    "SELECT id AS i, x FROM r": {"i": "id", "x": "v"},
    "FROM raw.t |> WHERE id > 0 |> SELECT v, n + 1 AS x": {"v": "v", "x": "n"},
    "FROM raw.t |> AS a |> WHERE a.v > 1 |> SELECT a.id, a.v + a.n AS x": {"id": "id", "x": "v n"},
    "FROM raw.t |> AS a |> JOIN raw.u ON a.id = u.id |> SELECT a.id, u.w, v": {"id": "id", "w": "u.w", "v": "v"},
    "FROM raw.t |> AS a |> EXTEND a.v + 1 AS x |> AS a |> SELECT a.x, a.n": {"x": "v", "n": "n"},
    "FROM raw.t |> EXTEND v + 1 AS x |> WHERE t.n > 1 |> SELECT t.id, x": {"id": "id", "x": "v"},
    "FROM raw.t |> SET v = v + n, n = v + id |> SELECT v, n, name": {"v": "v n", "n": "v n id", "name": "name"},
    "FROM raw.t |> DROP arr, s, items, m, j |> SET name = upper(name)": {
        "id": "id", "v": "v", "n": "n", "name": "name",
    },
    "SELECT v AS x, (SELECT max(w) FROM raw.u) AS y FROM raw.t |> EXTEND x + y AS z |> DROP y": {
        "x": "v", "z": "v u.w",
    },
    "SELECT id FROM raw.t UNION ALL SELECT id FROM raw.u |> EXTEND id + 1 AS x": {"id": "id u.id", "x": "id u.id"},
    "SELECT window.start AS x, sum(v) AS y FROM raw.t GROUP BY window(timestamp_seconds(n), '1 day')": {
        "x": "n", "y": "v",
    },
    "SELECT id, session_window.end AS x, count(*) AS c FROM raw.t "
    "GROUP BY session_window(timestamp_seconds(n), '6 hours'), id": {"id": "id", "x": "n", "c": ""},
    "FROM raw.t |> AGGREGATE sum(v) AS y GROUP BY window(timestamp_seconds(n), '1 day').start AS x": {
        "x": "n", "y": "v",
    },
}  # fmt: skip
