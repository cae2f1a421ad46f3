"""`plan` shows how many Spark queries make the due labels of a table."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.tiny import CONNECTIONS, TOML, day
from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.planner.planning import plan
from waterclock.planner.request import PlanRequest

FLOW = """
COLLECT raw.told PARTITIONED (id INT, k STRING, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;
COLLECT raw.came PARTITIONED (id INT, k STRING) FROM land.acme.sales EVERY DAY BY ARRIVAL TIME;
COLLECT raw.kept (id INT, k STRING, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at APPEND;
COLLECT raw.kinds (k STRING KEY, n INT, changed TIMESTAMP) FROM shop.kinds EVERY DAY BY DATA TIME changed
  MERGE ORDER BY changed;
COLLECT raw.lines PARTITIONED (id INT, k STRING REFERENCES raw.kinds, at TIMESTAMP) FROM shop.sales
  EVERY DAY BY DATA TIME at;
TRANSFORM marts.each PARTITIONED AS SELECT k, count(*) AS n FROM raw.came GROUP BY k;
TRANSFORM marts.flat PARTITIONED AS SELECT id, n FROM FLAT(raw.lines);
TRANSFORM marts.late PARTITIONED AS SELECT k, count(*) AS n FROM raw.kept GROUP BY k;
TRANSFORM marts.unshuffled PARTITIONED SHUFFLE NONE AS SELECT k FROM raw.came;
TRANSFORM marts.running APPEND AS SELECT k FROM raw.told;
PUBLISH marts.each TO files.each;
"""
CODE = """
import waterclock as wc

@wc.transform("marts.counted", partitioned=True)
def counted(rows: wc.DataFrame = wc.table("raw.told")) -> wc.DataFrame:
    return rows
"""
EMPTY = LedgerSnapshot()
LATER = day(1) + timedelta(days=100)


@pytest.mark.parametrize(
    ("table", "least", "most"),
    [
        ("raw.told", 4, 4),
        ("raw.came", 1, 1),
        ("raw.kept", 100, 100),
        ("marts.each", 1, 4),
        ("marts.late", 1, 100),
        ("marts.flat", 4, 100),
        ("marts.unshuffled", 100, 100),
        ("marts.counted", 4, 4),
    ],
)
def test_labels_share_claims_and_claims_queries(tmp_path: Path, table: str, least: int, most: int) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML.format(name="tiny", storage=".waterclock"))
    (tmp_path / "flows" / "flow.dpl").write_text(CONNECTIONS + FLOW)
    (tmp_path / "flows" / "code.py").write_text(CODE)
    flow = load_project(tmp_path, capabilities=capabilities()).flow
    queries = plan(flow, EMPTY, LATER, PlanRequest(cap=200)).to_dict()["queries"]
    assert queries[table] == {"least": least, "most": most}
    assert not [name for name in queries if name.startswith("files.")]
    in_parts = plan(flow, EMPTY, LATER, PlanRequest(cap=200, group_cap=40)).queries
    assert (in_parts["raw.came"].most, in_parts["marts.each"].least, in_parts["marts.each"].most) == (3, 3, 5)
    capped = plan(flow, EMPTY, LATER, PlanRequest(cap=10)).queries
    assert capped[table].most == most
