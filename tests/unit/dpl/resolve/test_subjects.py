"""SUBJECT columns: their types, and that they do not change the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES
from waterclock.dpl.project import load_project
from waterclock.dpl.resolve.subjects import SubjectType, subject_type
from waterclock.flow.declarations import Table

FLOW = """\
CREATE CONNECTION ops TYPE sqlite OPTIONS (path 'ops.sqlite');
COLLECT raw.customers (id BIGINT KEY {subject}, name STRING, *) FROM ops.customers EVERY DAY;
TRANSFORM marts.names (id {subject}, *) AS SELECT * FROM raw.customers;
PUBLISH marts.names TO ops.names;
"""


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("STRING", SubjectType.TEXT),
        ("varchar(20)", SubjectType.TEXT),
        ("char(3)", SubjectType.TEXT),
        ("bigint", SubjectType.INTEGER),
        ("long", SubjectType.INTEGER),
        ("TINYINT", SubjectType.INTEGER),
        ("DOUBLE", None),
        ("DECIMAL(10,0)", None),
        ("DATE", None),
        ("BINARY", None),
        ("ARRAY<STRING>", None),
    ],
)
def test_texts_and_integers_can_identify_persons(declared: str, kind: SubjectType | None) -> None:
    assert subject_type(declared) is kind


def test_subject_is_kept_with_its_column_and_changes_no_code(tmp_path: Path) -> None:
    without, with_subject = (_tables(tmp_path / name, text) for name, text in (("a", ""), ("b", "SUBJECT customer")))
    for name, table in with_subject.items():
        assert table.fingerprint == without[name].fingerprint
    assert with_subject["raw.customers"].columns.named[0].subject == "customer"
    assert with_subject["marts.names"].columns.named[0].subject == "customer"
    assert without["raw.customers"].columns.named[0].subject is None


def _tables(folder: Path, subject: str) -> dict[str, Table]:
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text('[project]\nname = "shop"\n[env.dev]\n', encoding="utf-8")
    (folder / "flows" / "shop.dpl").write_text(FLOW.format(subject=subject), encoding="utf-8")
    return dict(load_project(folder, capabilities=CAPABILITIES).flow.tables)
