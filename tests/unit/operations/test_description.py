from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.language.cases import CAPABILITIES, SETTINGS
from waterclock.dpl.project import load_project
from waterclock.operations.description import describe_columns

FLOW = """
CREATE CONNECTION landing TYPE files; CREATE CONNECTION ops TYPE sqlite; CREATE CONNECTION out TYPE files;
COLLECT raw.u (id BIGINT KEY SUBJECT customer, file STRING NOT NULL HIDDEN COMMENT 'from where') FROM ops.u EVERY DAY;
"""


def test_columns_are_described_with_their_properties_and_comments(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "flows/known.dpl").write_text(FLOW, encoding="utf-8")
    flow = load_project(tmp_path, capabilities=CAPABILITIES).flow
    at: Any = SimpleNamespace(project=SimpleNamespace(storage=str(tmp_path / "lake")), ledger=None)
    found = [
        (each.name, each.type, each.properties, each.comment) for each in describe_columns(at, flow.tables["raw.u"])
    ]
    assert found == [
        ("id", "BIGINT", "KEY, SUBJECT customer", ""),
        ("file", "STRING", "NOT NULL, HIDDEN", "from where"),
    ]
