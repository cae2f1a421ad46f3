"""The START of a table that declares none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.tiny import CONNECTIONS, TOML
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project

FLOW = """
COLLECT raw.a PARTITIONED (id BIGINT) FROM land.acme.a EVERY DAY BY ARRIVAL TIME;
TRANSFORM made.alone PARTITIONED EVERY HOUR AS SELECT 1 AS x;
TRANSFORM made.alone_by_week EVERY WEEK AS SELECT 1 AS x;
TRANSFORM made.later PARTITIONED EVERY HOUR START '2020-02-01' AS SELECT 1 AS x;
TRANSFORM made.of_a PARTITIONED AS SELECT id FROM raw.a;
PUBLISH made.alone TO out.alone;
"""


def test_a_transform_without_inputs_starts_at_the_default_start_like_a_collect(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML.format(name="starts", storage=".waterclock"), encoding="utf-8")
    (tmp_path / "flows" / "flow.dpl").write_text(CONNECTIONS + FLOW, encoding="utf-8")
    tables = load_project(tmp_path, capabilities=capabilities()).flow.tables
    assert {name: table.start for name, table in tables.items()} == {
        "raw.a": datetime(2020, 1, 1, tzinfo=UTC),
        "made.alone": datetime(2020, 1, 1, tzinfo=UTC),
        "made.alone_by_week": datetime(2020, 1, 6, tzinfo=UTC),
        "made.later": datetime(2020, 2, 1, tzinfo=UTC),
        "made.of_a": None,
        "out.alone": None,
    }
