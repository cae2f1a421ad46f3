"""Companion tables of late rows and of marks: a publish has its table's name, and hides none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project

SETTINGS = '[project]\nname = "x"\n[env.dev]\nconnections.shop = { path = "shop.sqlite" }\n'
FLOW = """
CREATE CONNECTION shop TYPE sqlite;
COLLECT web.u PARTITIONED (id BIGINT, at TIMESTAMP, came TIMESTAMP) FROM shop.u EVERY 6 HOURS START '2020-01-01'
  BY DATA TIME came WATERMARK at 0 MINUTES;
TRANSFORM web.daily PARTITIONED EVERY DAY CLOSE WHEN count(*) > 9 MAX LATENESS 1 HOUR
AS SELECT id FROM UNTIL(web.u, '1 day') WHERE at >= WINDOW_START() AND at < WINDOW_END();
"""


@pytest.mark.parametrize("published", ["web.u", "web.daily", "web.daily_late", "web.u_mark"])
def test_a_published_table_and_its_companion_tables_all_exist_in_the_flow(tmp_path: Path, published: str) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(SETTINGS)
    (tmp_path / "flows" / "flow.dpl").write_text(f"{FLOW}PUBLISH {published} TO shop.out;")
    flow = load_project(tmp_path, env=None, capabilities=capabilities()).flow
    late_rows = flow.tables["web.daily_late"].late_rows
    assert late_rows is not None
    assert late_rows.column == "at"
    assert "web.u_mark" in flow.tables
    assert [read.table for read in flow.tables["shop.out"].reads] == [published]
