"""A `*` in a rule OF an input contains no HIDDEN column, as in a query."""

from __future__ import annotations

from pathlib import Path

from tests.language.cases import CAPABILITIES
from waterclock.dpl.project import load_project

TOML = """[project]
name = "x"
[env.dev]
connections.landing = { path = "data/new" }
"""
FLOW = """
CREATE CONNECTION landing TYPE files;
COLLECT raw.orders PARTITIONED (at TIMESTAMP, id BIGINT, note STRING HIDDEN, *) FROM landing.orders
  EVERY DAY START '2024-01-01' BY DATA TIME at;
COLLECT raw.plain PARTITIONED (at TIMESTAMP, *) FROM landing.plain EVERY DAY START '2024-01-01' BY DATA TIME at;
TRANSFORM marts.asked PARTITIONED
  EXPECT xxhash64(*) > 0 OF raw.orders ELSE DROP, count(*) > 0 OF raw.orders, note > '' OF raw.orders,
         xxhash64(*) > 0 AS all_plain OF raw.plain
AS SELECT o.id FROM raw.orders AS o JOIN raw.plain USING (id);
"""


def test_a_star_in_an_input_rule_leaves_hidden_columns_out(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML, encoding="utf-8")
    (tmp_path / "flows" / "a.dpl").write_text(FLOW, encoding="utf-8")
    flow = load_project(tmp_path, capabilities=CAPABILITIES).flow
    assert [rule.expression for rule in flow.tables["marts.asked"].input_rules] == [
        "xxhash64(* EXCEPT (`note`)) > 0",
        "count(*) > 0",
        "note > ''",
        "xxhash64(*) > 0",
    ]
