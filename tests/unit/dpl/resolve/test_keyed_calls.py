from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.adhoc import adhoc_query
from waterclock.dpl.project import load_project
from waterclock.errors import ProjectErrors
from waterclock.flow.declarations import Flow

FLOW = """
CREATE CONNECTION crm TYPE sqlite OPTIONS (path 'crm.db');
CREATE CONNECTION pii TYPE keys OPTIONS (key.1 SECRET 'one', key.2 SECRET 'two', current '{current}');
CREATE CONNECTION hr TYPE keys OPTIONS (key.1 SECRET 'one', key.2 SECRET 'two', current '1');
CREATE FUNCTION pseudonym(x STRING) RETURNS STRING RETURN hash_keyed(lower(x), 'pii');
COLLECT crm.people (id BIGINT KEY, name STRING) FROM crm.people EVERY DAY START '2026-11-01';
CREATE VIEW stg.people AS SELECT id, pseudonym(name) AS name FROM crm.people;
CREATE VIEW stg.more AS SELECT * FROM stg.people;
TRANSFORM marts.direct AS SELECT id, hash_keyed(name, 'pii') AS name FROM crm.people;
TRANSFORM marts.viewed AS SELECT * FROM stg.more;
TRANSFORM marts.ruled (name STRING EXPECT (pseudonym(name) <> '')) AS SELECT name FROM crm.people;
TRANSFORM marts.named AS SELECT id, hash_keyed(name, 'pii', '1') AS a, encrypt(name, 'pii', key => '2') AS b,
  perturb(id, 2, id, 'pii', '1') AS c FROM crm.people;
TRANSFORM marts.back AS SELECT id, decrypt(name, 'pii') AS name FROM crm.people;
TRANSFORM marts.other AS SELECT id, hash_keyed(name, 'hr') AS name FROM crm.people;
TRANSFORM marts.quoted AS SELECT id, "hash_keyed(name, 'pii')" AS name FROM crm.people;
PUBLISH crm.people (id, name AS (encrypt(name, 'pii'))) TO crm.sent;
"""


def flow_of(folder: Path, *, current: str = "1", secret: str = "not read") -> Flow:
    (folder / "flows").mkdir(exist_ok=True)
    (folder / "secrets").mkdir(exist_ok=True)
    for name in ("one", "two"):
        (folder / "secrets" / name).write_text(secret)
    (folder / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (folder / "flows" / "all.dpl").write_text(FLOW.format(current=current))
    return load_project(folder, capabilities=capabilities()).flow


def test_the_current_key_is_code_of_the_tables_that_use_it_without_its_name(tmp_path: Path) -> None:
    before = {name: table.fingerprint for name, table in flow_of(tmp_path).tables.items()}
    after = {name: table.fingerprint for name, table in flow_of(tmp_path, current="2").tables.items()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"marts.direct", "marts.viewed", "marts.ruled", "crm.sent"}


def test_the_value_of_a_secret_is_no_part_of_code(tmp_path: Path) -> None:
    before, after = flow_of(tmp_path), flow_of(tmp_path, secret="another")
    assert before.fingerprint == after.fingerprint


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT DECRYPT (name, 'pii') FROM crm.people", "DECRYPT(…) is only for the flow"),
        ("SELECT `encrypt`(name, 'pii') FROM crm.people", "encrypt(…) is only for the flow"),
        ("SELECT pseudonym(name) FROM crm.people", "pseudonym(…) calls hash_keyed, which is only for the flow"),
        ("SELECT id FROM stg.more", "stg.more calls hash_keyed, which is only for the flow"),
        ("SELECT perturb(1, 2, 'x', 'pii') AS a", "perturb(…) is only for the flow"),
    ],
)
def test_queries_get_no_keys(tmp_path: Path, sql: str, what: str) -> None:
    with pytest.raises(ProjectErrors) as raised:
        adhoc_query(sql, flow_of(tmp_path))
    assert [(error.code, error.what) for error in raised.value.errors] == [("E216", what)]


@pytest.mark.parametrize(
    "sql",
    ["SELECT * FROM wc_keys", "SELECT id FROM crm.people WHERE name IN (SELECT by_name FROM wc_keys)",
     "SELECT * FROM IDENTIFIER('wc_keys')", "TABLE wc_keys"],
)  # fmt: skip
def test_queries_cannot_name_the_view_of_keys(tmp_path: Path, sql: str) -> None:
    with pytest.raises(ProjectErrors):
        adhoc_query(sql, flow_of(tmp_path))


def test_queries_can_read_and_generalize_columns_made_with_keys(tmp_path: Path) -> None:
    flow = flow_of(tmp_path)
    for sql in ("SELECT name FROM marts.direct", "SELECT generalize(name, keep_first => 2) FROM marts.viewed",
                "SELECT 'hash_keyed(x)' AS a FROM marts.back"):  # fmt: skip
        assert adhoc_query(sql, flow).text == sql
