from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.dpl.query.query_warnings import query_warnings
from waterclock.errors import WaterclockError

TABLES = """
CREATE CONNECTION landing TYPE files OPTIONS (path 'in');
COLLECT raw.sale PARTITIONED (id BIGINT KEY, buyer BIGINT, at TIMESTAMP, cents BIGINT) FROM landing.sale
  EVERY DAY BY ARRIVAL TIME;
COLLECT raw.click PARTITIONED (url, at TIMESTAMP, *) FROM landing.click EVERY DAY BY ARRIVAL TIME;
TRANSFORM dim.buyer (id BIGINT KEY, name STRING) AS SELECT buyer AS id, max('x') AS name FROM HISTORY(raw.sale)
  GROUP BY buyer;
TRANSFORM dim.life (id BIGINT KEY, name STRING) TEMPORAL AS SELECT id, name FROM dim.buyer;
"""


def warnings(folder: Path, query: str) -> list[WaterclockError]:
    (folder / "flows").mkdir(exist_ok=True)
    (folder / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (folder / "flows" / "a.dpl").write_text(f"{TABLES}\nTRANSFORM m.t PARTITIONED EVERY DAY AS {query};")
    return query_warnings(load_project(folder, capabilities=capabilities()).flow)


@pytest.mark.parametrize(
    ("query", "what", "marked"),
    [
        ("SELECT * FROM raw.click LIMIT 5", "LIMIT without ORDER BY takes arbitrary rows", "5"),
        ("SELECT url FROM (SELECT url FROM raw.click LIMIT 3) ORDER BY url", "LIMIT without ORDER BY", "3"),
        ("SELECT url FROM raw.click UNION ALL SELECT url FROM raw.click LIMIT 4", "LIMIT without ORDER BY", "4"),
        ("SELECT count(*) AS n FROM raw.click GROUP BY url LIMIT 2", "LIMIT without ORDER BY", "2"),
        ("SELECT * FROM raw.click ORDER BY at LIMIT 5", "LIMIT takes arbitrary rows among ties", "5"),
        ("FROM raw.click |> ORDER BY at |> LIMIT 6", "LIMIT takes arbitrary rows", "6"),
        ("SELECT id FROM raw.sale ORDER BY cents DESC LIMIT 3", "LIMIT takes arbitrary rows", "3"),
        ("SELECT url, count(*) AS n FROM raw.click GROUP BY url ORDER BY n LIMIT 3", "LIMIT takes arbitrary", "3"),
        ("SELECT id FROM raw.sale UNION ALL SELECT url FROM raw.click ORDER BY 2 LIMIT 7", "LIMIT takes", "7"),
        ("SELECT url, first(at) AS f FROM raw.click GROUP BY url", "first takes an arbitrary row of a group", "first"),
        ("SELECT url, last(at) AS f FROM raw.click GROUP BY url", "last takes an arbitrary row", "last"),
        ("SELECT url, any_value(at) AS f FROM raw.click GROUP BY url", "any_value takes an arbitrary", "any_value"),
        ("SELECT url, mode(at) AS f FROM raw.click GROUP BY url", "mode takes an arbitrary one", "mode"),
        ("SELECT mode(at) OVER (PARTITION BY url) AS f FROM raw.click", "mode takes an arbitrary one", "mode"),
        ("SELECT url, collect_list(at) AS f FROM raw.click GROUP BY url", "the order of collect_list", "coll"),
        ("SELECT url, collect_set(at) AS f FROM raw.click GROUP BY url", "the order of collect_set", "collect_s"),
        ("SELECT url, array_agg(at) AS f FROM raw.click GROUP BY url", "the order of collect_list", "array_agg"),
        ("SELECT listagg(url, ',') AS f FROM raw.click", "the order of listagg", "url"),
        ("SELECT row_number() OVER (ORDER BY at) AS n FROM raw.click", "row_number uses an order", "row_number"),
        ("SELECT row_number() OVER (PARTITION BY buyer ORDER BY at) AS n FROM raw.sale", "row_number", "row"),
        ("SELECT lag(cents) OVER w AS n FROM raw.sale WINDOW w AS (ORDER BY at)", "lag uses an order", "lag"),
        ("SELECT first_value(cents) OVER (PARTITION BY buyer ORDER BY at) AS n FROM raw.sale", "first", "first"),
        ("SELECT row_number() OVER (ORDER BY id) AS n FROM HISTORY(raw.sale)", "row_number uses", "row_number"),
        ("SELECT row_number() OVER (ORDER BY id) AS n FROM dim.life", "row_number uses an order", "row_number"),
        ("SELECT row_number() OVER (ORDER BY s.id) AS n FROM raw.sale s JOIN dim.buyer b ON b.id > s.buyer",
         "row_number uses an order", "row_number"),
        ("SELECT row_number() OVER (ORDER BY s.id) AS n FROM raw.sale s RIGHT JOIN dim.buyer b ON b.id = s.buyer",
         "row_number uses an order", "row_number"),
        ("SELECT row_number() OVER (ORDER BY s.id) AS n FROM raw.sale s FULL JOIN dim.buyer b ON b.id = s.buyer",
         "row_number uses an order", "row_number"),
        ("SELECT row_number() OVER (ORDER BY s.id) AS n FROM raw.sale s JOIN dim.buyer b ON b.id = b.id",
         "row_number uses an order", "row_number"),
        ("SELECT row_number() OVER (ORDER BY id) AS n FROM (SELECT s.id FROM raw.sale s, raw.click c)", "row_number",
         "row_number"),
        ("SELECT row_number() OVER (ORDER BY id) AS n FROM (SELECT id, explode(map(1, 2)) AS (k, v) FROM raw.sale)",
         "row_number uses an order", "row_number"),
        ("SELECT row_number() OVER (ORDER BY id) AS n FROM (SELECT id, posexplode(array(1)) AS (i, x) FROM raw.sale)",
         "row_number uses an order", "row_number"),
        ("SELECT row_number() OVER (ORDER BY id) AS n FROM (SELECT id, explode_outer(array(1)) AS x FROM raw.sale)",
         "row_number uses an order", "row_number"),
    ],
)  # fmt: skip
def test_a_query_that_depends_on_row_order_is_warned_about_once_with_a_fix(
    tmp_path: Path, query: str, what: str, marked: str
) -> None:
    (found,) = warnings(tmp_path, query)
    assert found.code == "W201"
    assert found.what.startswith(what)
    assert found.fix
    text = (tmp_path / "flows" / "a.dpl").read_text().splitlines()
    _, line, column = str(found.where).split(":")
    assert text[int(line) - 1][int(column) - 1 :].startswith(marked)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT at FROM raw.click ORDER BY at LIMIT 5",
        "SELECT * FROM raw.sale ORDER BY at, id LIMIT 5",
        "FROM raw.sale |> ORDER BY cents DESC, id |> LIMIT 5",
        "SELECT id AS sale, cents FROM raw.sale ORDER BY cents, sale LIMIT 5",
        "SELECT id, cents FROM raw.sale ORDER BY 2, 1 LIMIT 5",
        "SELECT url, count(*) AS n FROM raw.click GROUP BY url ORDER BY n, url LIMIT 3",
        "SELECT url, count(*) AS n FROM raw.click GROUP BY ALL ORDER BY n, url LIMIT 3",
        "SELECT count(*) AS n FROM raw.click GROUP BY url ORDER BY url LIMIT 3",
        "SELECT DISTINCT url, at FROM raw.click ORDER BY at, url LIMIT 3",
        "SELECT url, at FROM raw.click ORDER BY ALL LIMIT 3",
        "SELECT id FROM raw.sale UNION ALL SELECT buyer FROM raw.sale ORDER BY id LIMIT 7",
        "SELECT count(*) AS n FROM raw.click LIMIT 1",
        "SELECT mode(at, true) AS a, mode() WITHIN GROUP (ORDER BY url) AS b FROM raw.click",
        "SELECT id FROM raw.sale s WHERE EXISTS (SELECT 1 FROM raw.click c WHERE c.at = s.at LIMIT 1)",
        "SELECT rank() OVER (ORDER BY at) AS n, sum(cents) OVER (ORDER BY at) AS s FROM raw.sale",
        "SELECT sort_array(collect_list(at)) AS a, size(collect_set(url)) AS b, max_by(url, at) AS c FROM raw.click",
        "SELECT array_sort(collect_list(at) FILTER (WHERE url > '')) AS a FROM raw.click",
        "SELECT listagg(url, ',') WITHIN GROUP (ORDER BY url, at) AS f FROM raw.click",
        "SELECT row_number() OVER (PARTITION BY buyer ORDER BY at, id) AS n FROM raw.sale",
        "SELECT row_number() OVER (ORDER BY id, timelabel) AS n FROM HISTORY(raw.sale)",
        "SELECT row_number() OVER (PARTITION BY id ORDER BY rec_eff_time) AS n FROM dim.life",
        "SELECT lag(cents) OVER w AS n FROM raw.sale WINDOW w AS (PARTITION BY buyer ORDER BY at, id DESC)",
        "SELECT row_number() OVER (ORDER BY s.id) AS n FROM raw.sale s LEFT JOIN dim.buyer b ON b.id = s.buyer",
        "SELECT row_number() OVER (ORDER BY id) AS n FROM raw.sale s JOIN dim.buyer b USING (id)",
        "SELECT row_number() OVER (ORDER BY s.id, b.id) AS n FROM raw.sale s JOIN dim.buyer b ON b.id > s.buyer",
        "SELECT row_number() OVER (ORDER BY n, url) AS r FROM (SELECT url, count(*) AS n FROM raw.click GROUP BY url)",
        "WITH o AS (SELECT DISTINCT url, at FROM raw.click) SELECT row_number() OVER (ORDER BY at, url) AS r FROM o",
        "WITH o AS (SELECT *, 1 AS one FROM raw.sale) SELECT row_number() OVER (ORDER BY at, id) AS r FROM o",
    ],
)
def test_a_query_with_a_total_order_or_unique_rows_is_not_warned_about(tmp_path: Path, query: str) -> None:
    assert warnings(tmp_path, query) == []


def test_keys_are_resolved_through_a_view_and_its_own_query_is_warned_about(tmp_path: Path) -> None:
    query = "SELECT row_number() OVER (ORDER BY buyer) AS r FROM v.one; CREATE VIEW v.one AS "
    assert warnings(tmp_path, query + "SELECT id AS buyer FROM dim.buyer") == []
    (found,) = warnings(tmp_path, query + "SELECT id AS buyer FROM dim.buyer LIMIT 3")
    assert found.what.startswith("LIMIT")


def test_each_query_of_a_union_by_name_is_checked(tmp_path: Path) -> None:
    query = "SELECT first(url) AS u FROM raw.click UNION ALL BY NAME SELECT last(url) AS u FROM raw.click"
    assert [found.what.split()[0] for found in warnings(tmp_path, query)] == ["first", "last"]


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT id FROM raw.sale NATURAL JOIN raw.click", "NATURAL JOIN also joins by timelabel"),
        (
            "SELECT s.id FROM raw.sale s NATURAL LEFT JOIN PAST(raw.click, '2 days') c",
            "NATURAL JOIN also joins by timelabel",
        ),
        ("SELECT struct(s.*) AS s FROM raw.sale s", "struct(s.*) includes timelabel"),
        ("SELECT xxhash64(*) AS h FROM raw.sale", "(*) includes timelabel"),
        ("SELECT to_json(struct(*)) AS j FROM HISTORY(raw.sale)", "struct(*) includes timelabel"),
    ],
)
def test_an_implicitly_included_timelabel_is_warned_about(tmp_path: Path, query: str, what: str) -> None:
    (found,) = warnings(tmp_path, query)
    assert found.code == "W202"
    assert what in str(found.what)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s.id FROM raw.sale s JOIN raw.click c USING (at)",
        "SELECT id FROM raw.sale NATURAL JOIN (SELECT at FROM raw.click) c",
        "SELECT struct(s.* EXCEPT (timelabel)) AS s FROM raw.sale s",
        "SELECT struct(s.*) AS s FROM (SELECT id, at FROM raw.sale) s",
        "SELECT count(*) AS n, count(DISTINCT s.*) AS m FROM raw.sale s",
        "SELECT * FROM raw.sale",
        "WITH s AS (SELECT id FROM raw.sale) SELECT struct(s.*) AS s FROM s",
    ],
)
def test_a_query_that_cannot_include_timelabel_implicitly_is_not_warned_about(tmp_path: Path, query: str) -> None:
    assert warnings(tmp_path, query) == []


TEXTS = """
CREATE CONNECTION landing TYPE files OPTIONS (path 'in');
COLLECT raw.ride PARTITIONED (id BIGINT KEY, said STRING, bare, at TIMESTAMP, seen DATE, n BIGINT) FROM landing.ride
  EVERY DAY BY ARRIVAL TIME;
"""


def of_texts(folder: Path, expression: str, zone: str) -> list[WaterclockError]:
    (folder / "flows").mkdir(exist_ok=True)
    (folder / "waterclock.toml").write_text(f'[project]\nname = "x"\n[defaults]\nzone = "{zone}"\n')
    query = f"TRANSFORM m.t PARTITIONED EVERY DAY AS SELECT id, {expression} AS time FROM raw.ride;"
    (folder / "flows" / "a.dpl").write_text(f"{TEXTS}\n{query}")
    return query_warnings(load_project(folder, capabilities=capabilities()).flow)


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("to_timestamp(said)", "to_timestamp(...)"),
        ("to_timestamp(bare)", "to_timestamp(...)"),
        ("to_timestamp(said, 'dd.MM.yyyy HH:mm')", "to_timestamp(...)"),
        ("try_to_timestamp(said, 'yyyy')", "try_to_timestamp(...)"),
        ("CAST(said AS TIMESTAMP)", "CAST(... AS TIMESTAMP)"),
        ("TRY_CAST(replace(bare, 'T', ' ') AS TIMESTAMP)", "CAST(... AS TIMESTAMP)"),
    ],
)
def test_a_text_that_is_read_in_utc_is_warned_of_in_another_zone(tmp_path: Path, expression: str, what: str) -> None:
    (found,) = of_texts(tmp_path, expression, "Europe/Berlin")
    assert found.code == "W204"
    assert found.what == f"{what} reads a string without an offset in UTC, not in Europe/Berlin"
    assert "to_utc_timestamp(..., 'Europe/Berlin')" in str(found.fix)
    assert str(found.where).startswith("flows/a.dpl:6:")
    assert not of_texts(tmp_path, expression, "UTC")


@pytest.mark.parametrize(
    "expression",
    [
        "to_timestamp('2026-10-25 02:30:00')",
        "TIMESTAMP '2026-10-25 02:30:00'",
        "to_timestamp(said, 'yyyy-MM-dd HH:mm:ssXXX')",
        "try_to_timestamp(said, 'yyyy-MM-dd HH:mm:ss Z')",
        "to_utc_timestamp(to_timestamp(said), 'Europe/Berlin')",
        "CAST(seen AS TIMESTAMP)",
        "to_timestamp(n)",
        "to_timestamp(n / 1000)",
        "CAST(n AS TIMESTAMP)",
        "CAST(said AS DATE)",
        "CAST(at AS STRING)",
    ],
)
def test_a_time_conversion_without_local_time_text_is_not_warned_about(tmp_path: Path, expression: str) -> None:
    assert not of_texts(tmp_path, expression, "Europe/Berlin")
