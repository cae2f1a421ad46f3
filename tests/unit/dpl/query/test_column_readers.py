"""Readers of a column are found: by its name anywhere, by a *, by FLAT, or assumed if the code cannot be analyzed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.cases import SETTINGS
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.dpl.query.column_readers import readers_of

BASE = """
CREATE CONNECTION landing TYPE files; CREATE CONNECTION ops TYPE sqlite; CREATE CONNECTION out TYPE files;
COLLECT raw.people (id BIGINT KEY, name STRING, full_name STRING) FROM ops.people EVERY DAY;
COLLECT raw.kinds (id BIGINT KEY) FROM ops.kinds EVERY DAY;
COLLECT raw.plain (id BIGINT KEY, kind BIGINT REFERENCES raw.kinds) FROM ops.plain EVERY DAY;
COLLECT raw.orders (id BIGINT KEY, person BIGINT REFERENCES raw.people, note STRING) FROM ops.orders EVERY DAY;
CREATE VIEW stg.named AS SELECT id, upper(full_name) AS shown FROM raw.people;
CREATE VIEW stg.all AS SELECT * FROM raw.people;
"""

INNER = "SELECT id FROM raw.people WHERE full_name = ''"
REFERS = "REFERENCES raw.people (full_name)"


@pytest.mark.parametrize(
    ("statement", "how"),
    [
        ("TRANSFORM m.a AS SELECT full_name FROM raw.people", "by its name"),
        ("TRANSFORM m.a AS SELECT id FROM raw.people WHERE FULL_NAME > 'a'", "by its name"),
        ("TRANSFORM m.a AS SELECT p.id FROM raw.people p ORDER BY p.full_name", "by its name"),
        ("TRANSFORM m.a AS SELECT count(*) AS n FROM raw.people GROUP BY `full_name`", "by its name"),
        (f"TRANSFORM m.a AS SELECT note FROM raw.orders WHERE id IN ({INNER})", "by its name"),
        ("TRANSFORM m.a AS SELECT shown FROM stg.named", "by its name"),
        ("TRANSFORM m.a AS SELECT * FROM raw.people", "by *"),
        ("TRANSFORM m.a AS SELECT p.* FROM raw.people p JOIN raw.orders o ON o.id = p.id", "by *"),
        ("TRANSFORM m.a AS SELECT id FROM stg.all", "by *"),
        ("TRANSFORM m.a AS SELECT o.id FROM FLAT(raw.orders) o", "by FLAT"),
        ("TRANSFORM m.a AS SELECT o.id, p.name FROM FLAT(raw.plain) o JOIN raw.people p ON p.id = o.id", None),
        (f"TRANSFORM m.a AS SELECT id FROM raw.people UNION ALL BY NAME {INNER}", "by its name"),
        ("PUBLISH raw.people TO ops.x", "by *"),
        ("PUBLISH raw.people (id, Full_Name) TO ops.x", "by its name"),
        (f"TRANSFORM m.a (p STRING {REFERS}) EVERY DAY AS SELECT note AS p FROM raw.orders", "REFERENCES it"),
        ("TRANSFORM m.a AS SELECT id, name FROM raw.people", None),
        ("TRANSFORM m.a AS SELECT count(*) AS n FROM raw.people", None),
        ("TRANSFORM m.a AS SELECT * EXCEPT (full_name) FROM raw.people", None),
        ("TRANSFORM m.a AS SELECT * FROM raw.orders", None),
        ("PUBLISH raw.people (id, name) TO ops.x", None),
    ],
)  # fmt: skip
def test_a_reader_is_found_however_it_reads(statement: str, how: str | None, tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(SETTINGS)
    (tmp_path / "flows" / "a.dpl").write_text(f"{BASE}{statement};")
    flow = load_project(tmp_path, capabilities=capabilities()).flow
    found = readers_of(flow, "raw.people", "full_name")
    assert [reader.how for reader in found] == ([how] if how else [])


def test_a_python_function_may_read_any_column(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(SETTINGS)
    (tmp_path / "flows" / "a.dpl").write_text(BASE)
    (tmp_path / "flows" / "b.py").write_text(
        "import waterclock as wc\n\n\n@wc.transform('m.a', columns='id BIGINT')\n"
        "def a(people=wc.table('raw.people')) -> wc.DataFrame:\n    return people.select('id')\n"
    )
    flow = load_project(tmp_path, capabilities=capabilities()).flow
    [reader] = readers_of(flow, "raw.people", "full_name")
    assert str(reader) == "m.a (a() cannot be looked into)"
