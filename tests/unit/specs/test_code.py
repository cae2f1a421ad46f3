from __future__ import annotations

from pathlib import Path

from tests.tiny import CONNECTIONS, TOML
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.specs.code import code_of

FLOW = """COLLECT raw.a PARTITIONED (id BIGINT) FROM land.acme.a EVERY DAY BY ARRIVAL TIME;
  CREATE VIEW clean.a AS SELECT * FROM raw.a; CREATE VIEW clean.b AS SELECT id FROM clean.a;
-- it's said; here
TRANSFORM marts.t PARTITIONED COMMENT 'one; two' -- three;
AS SELECT /* four; */ id AS `a`, ';' AS b
   FROM clean.b;
TRANSFORM marts.u PARTITIONED AS SELECT id FROM raw.a"""
PYTHON = """import waterclock as wc


@wc.transform("marts.p", partitioned=True)
def p(rows: wc.DataFrame = wc.table("clean.a")) -> wc.DataFrame:
    return rows
"""


def test_declarations_are_shown_as_written_together_with_the_views_between_them(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML.format(name="tiny", storage=".waterclock"))
    (tmp_path / "flows" / "a.dpl").write_text(CONNECTIONS + FLOW)
    (tmp_path / "flows" / "p.py").write_text(PYTHON)
    project = load_project(tmp_path, capabilities=capabilities())

    found = {each.table: each for each in code_of(project, {"marts.t", "marts.u", "marts.p"})}

    assert set(found) == {"clean.a", "clean.b", "marts.t", "marts.u", "marts.p"}
    assert found["clean.a"].text == "CREATE VIEW clean.a AS SELECT * FROM raw.a;"
    assert found["clean.b"].text == "CREATE VIEW clean.b AS SELECT id FROM clean.a;"
    assert found["marts.t"].text == (
        "TRANSFORM marts.t PARTITIONED COMMENT 'one; two' -- three;\n"
        "AS SELECT /* four; */ id AS `a`, ';' AS b\n   FROM clean.b;"
    )
    assert found["marts.u"].text == "TRANSFORM marts.u PARTITIONED AS SELECT id FROM raw.a"
    assert found["marts.p"].text.startswith('@wc.transform("marts.p"')
    assert found["marts.t"].place.startswith("flows/a.dpl:")
