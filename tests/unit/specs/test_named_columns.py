from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiny import CONNECTIONS, TOML
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.specs.named_columns import named_columns

SOURCES = """
COLLECT raw.a PARTITIONED (id BIGINT, *) FROM land.acme.a EVERY DAY BY ARRIVAL TIME;
COLLECT raw.b PARTITIONED (id BIGINT, n INT, *) FROM land.acme.b EVERY DAY BY ARRIVAL TIME;
COLLECT raw.c PARTITIONED (id BIGINT, z INT) FROM land.acme.c EVERY DAY BY ARRIVAL TIME;
CREATE VIEW clean.a AS SELECT * FROM raw.a WHERE seen;
CREATE VIEW clean.some AS SELECT id, upper(city) AS town FROM raw.a;
TRANSFORM marts.t PARTITIONED
AS
"""


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT id, x, upper(y) AS y2 FROM raw.a WHERE z > 1", {"raw.a": ("x", "y", "z")}),
        ("SELECT a.x, b.n, b.m FROM raw.a a JOIN raw.b b ON a.id = b.id", {"raw.a": ("x",), "raw.b": ("m",)}),
        ("SELECT x FROM raw.a JOIN raw.b USING (id)", {}),
        ("SELECT x, z FROM raw.a JOIN raw.c USING (id)", {"raw.a": ("x",)}),
        ("SELECT v.x AS x FROM clean.a v", {"raw.a": ("seen", "x")}),
        ("SELECT town FROM clean.some", {"raw.a": ("city",)}),
        ("WITH w AS (SELECT * FROM raw.a) SELECT w.x AS x, count(*) AS n FROM w GROUP BY ALL", {"raw.a": ("x",)}),
        ("SELECT id AS k, k AS j FROM raw.b", {}),
        ("SELECT upper(x) AS x FROM raw.a WHERE x > 'a'", {"raw.a": ("x",)}),
        ("SELECT id FROM raw.c", {}),
    ],
)
def test_columns_that_only_queries_name_are_found_where_it_is_sure_whose_they_are(
    query: str, names: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML.format(name="tiny", storage=".waterclock"))
    (tmp_path / "flows" / "flow.dpl").write_text(CONNECTIONS + SOURCES + query + ";")

    found = named_columns(load_project(tmp_path, capabilities=capabilities()).flow)

    assert {table: tuple(sorted(columns)) for table, columns in found.items()} == names
