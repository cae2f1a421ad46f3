from __future__ import annotations

from pathlib import Path

from tests.tiny import CONNECTIONS, TOML
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.dpl.statement_texts import statement_texts

DPL = """
COLLECT raw.a (id BIGINT) FROM shop.a EVERY DAY;
-- of b,
-- in two lines
COLLECT raw.b (id BIGINT)
  -- within it
  FROM shop.b EVERY DAY;

CREATE VIEW stg.b AS SELECT id FROM raw.b;
"""
PYTHON = """\
import waterclock as wc


@wc.transform("made.c")
def c(b: wc.DataFrame = wc.table("raw.b")) -> wc.DataFrame:
    return b


# of d
@wc.transform("made.d")
def d(b: wc.DataFrame = wc.table("raw.b")) -> wc.DataFrame:
    return b
"""


def _texts(folder: Path) -> dict[str, str]:
    project = load_project(folder, capabilities=capabilities())
    return statement_texts(project.flow, project.sources)


def test_a_statement_ends_where_the_next_begins(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML.format(name="texts", storage=".waterclock"), encoding="utf-8")
    (tmp_path / "flows" / "made.py").write_text(PYTHON, encoding="utf-8")
    (tmp_path / "flows" / "flow.dpl").write_text(CONNECTIONS + DPL, encoding="utf-8")
    assert _texts(tmp_path) == {
        "raw.a": "COLLECT raw.a (id BIGINT) FROM shop.a EVERY DAY;",
        "raw.b": "COLLECT raw.b (id BIGINT)\n  -- within it\n  FROM shop.b EVERY DAY;",
        "made.c": PYTHON[PYTHON.index('@wc.transform("made.c")') : PYTHON.index("\n\n\n# of d")],
        "made.d": PYTHON[PYTHON.index('@wc.transform("made.d")') :].rstrip(),
    }


def test_lines_are_those_that_places_count(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML.format(name="texts", storage=".waterclock"), encoding="utf-8")
    first = "COLLECT raw.a (id BIGINT) FROM shop.a EVERY DAY COMMENT 'one\x0ctwo\u2028three\x85four';"
    second = "COLLECT raw.b (id BIGINT) FROM shop.b EVERY DAY;"
    text = f"{CONNECTIONS}\n-- a\u2028comment\n{first}\n\n/* of b,\n   in two lines */\n/* and more */\n{second}\n"
    (tmp_path / "flows" / "flow.dpl").write_text(text, encoding="utf-8")
    assert _texts(tmp_path) == {"raw.a": first, "raw.b": second}
