"""`waterclock pii` without Spark: the columns it lists, the reasons, and the missing declarations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import ask

FLOW = """
CREATE CONNECTION land TYPE files OPTIONS (path 'in'); CREATE CONNECTION out TYPE files OPTIONS (path 'out');
COLLECT raw.people PARTITIONED (id BIGINT, email STRING TAGS (pii), phone STRING, zip STRING TAGS (no_pii),
                                home STRUCT<street: STRING, floor: INT>)
  FROM land.people EVERY DAY START '2024-01-01' BY ARRIVAL TIME;
COLLECT raw.airlines PARTITIONED (carrier STRING, name STRING) FROM land.airlines EVERY DAY BY ARRIVAL TIME;
TRANSFORM marts.people PARTITIONED AS SELECT id, lower(email) AS mail, phone AS reach, mask_text(email) AS hidden
FROM raw.people;
PUBLISH marts.people (id, mail TAGS (pii), reach) TO out.people;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (tmp_path / "flows" / "all.dpl").write_text(FLOW)
    return tmp_path


def columns(found: Any) -> dict[str, dict[str, Any]]:
    return {f"{table['table']}.{each['column']}": each for table in found["tables"] for each in table["columns"]}


def test_each_column_has_its_reasons_and_its_missing_declaration(folder: Path) -> None:
    told = json.loads(ask("pii", "--project", str(folder), "--json").stdout)
    found = columns(told)
    assert set(found) == {
        "raw.people.email", "raw.people.phone", "raw.people.home", "marts.people.mail", "marts.people.reach",
        "out.people.mail", "out.people.reach",
    }  # fmt: skip
    assert found["raw.people.email"]["tag"] == "pii"
    assert [each["by"] for each in found["raw.people.email"]["reasons"]] == ["tag", "name"]
    assert found["raw.people.home"]["reasons"] == [{"by": "name", "kind": "address"}]
    assert found["marts.people.mail"]["reasons"] == [
        {"by": "lineage", "columns": ["raw.people.email"], "is_sure": True}
    ]
    assert {name: each["missing"] for name, each in found.items() if each["missing"]} == {
        "raw.people.phone": "phone TAGS (pii), or TAGS (no_pii)",
        "raw.people.home": "home TAGS (pii), or TAGS (no_pii)",
        "out.people.reach": "reach AS (mask_text(reach)), or reach TAGS (pii)",
    }
    assert told["missing"] == 3


def test_tables_can_be_selected(folder: Path) -> None:
    printed = ask("pii", "marts.*", "--project", str(folder)).stdout
    assert "marts.people" in printed
    assert "raw.people  " not in printed
    assert "2 columns with personal data, nothing is missing" in printed
    assert "no personal data found" in ask("pii", "raw.airlines", "--project", str(folder)).stdout
    assert "E511" in ask("pii", "raw.nobody", "--project", str(folder)).output
