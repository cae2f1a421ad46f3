"""The tag pii follows values along the lineage, and ends at a function that hides them or a column that declares it."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import check_project, load_project
from waterclock.dpl.query.column_trace import ColumnOf
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.dpl.query.personal_columns import (
    find_first_columns,
    find_followed_calls,
    find_personal_columns,
    list_tagged_columns,
)
from waterclock.flow.declarations import Flow

BEFORE = """
CREATE CONNECTION landing TYPE files OPTIONS (path 'in'); CREATE CONNECTION out TYPE files OPTIONS (path 'out');
CREATE CONNECTION pii TYPE keys OPTIONS (key.a SECRET 'k', current 'a');
CREATE FUNCTION hide(x STRING) RETURNS STRING RETURN concat('p', hash_keyed(lower(x), 'pii'));
CREATE FUNCTION hide_twice(x STRING) RETURNS STRING RETURN hide(hide(x));
CREATE FUNCTION tokenize(x STRING) RETURNS STRING RETURN trim(x);
CREATE FUNCTION reveal(x STRING) RETURNS STRING RETURN trim(decrypt(x, 'pii'));
COLLECT raw.people PARTITIONED (id BIGINT, email STRING TAGS (pii), born DATE TAGS (pii), town STRING)
  FROM landing.people EVERY DAY BY ARRIVAL TIME;
COLLECT raw.visits PARTITIONED (who STRING SUBJECT visitor TOKENS) FROM landing.visits EVERY DAY BY ARRIVAL TIME;
COLLECT raw.open PARTITIONED (id BIGINT, email STRING TAGS (pii), *) FROM landing.more EVERY DAY BY ARRIVAL TIME;
"""


def flow_of(folder: Path, text: str) -> Flow:
    (folder / "flows").mkdir(exist_ok=True)
    (folder / "secrets").mkdir(exist_ok=True)
    (folder / "secrets" / "k").write_text("k" * 40)
    (folder / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (folder / "flows" / "all.dpl").write_text(BEFORE + text)
    return load_project(folder, capabilities=capabilities()).flow


def tagged(flow: Flow, table: str) -> dict[str, bool]:
    """Return the columns of a table with the tag, and whether the tag is certain."""
    lineage = ColumnLineage(flow, calls=find_followed_calls(flow.functions))
    found = find_personal_columns(lineage, list_tagged_columns(flow))
    return {each.column.column: each.is_sure for each in found if each.column.table == table}


@pytest.mark.parametrize(
    ("expression", "is_tagged"),
    [
        ("email", True),
        ("upper(email)", True),
        ("concat(mask_text(email), town)", False),
        ("concat(mask_text(email), email)", True),
        ("CASE WHEN town = 'x' THEN email END", True),
        ("struct(id, email)", True),
        ("max(email) OVER (PARTITION BY id)", True),
        ("sha2(email, 256)", True),
        ("key_of(email, id)", True),
        ("perturb(year(born), 1, id, 'pii')", True),
        ("mask_text(email, keep_first => 1)", False),
        ("hash_keyed(lower(email), 'pii')", False),
        ("encrypt(email, 'pii', id)", False),
        ("generalize(born, to => 'year')", False),
        ("hide_twice(email)", False),
        ("tokenize(email)", True),  # a function of the flow, which hides nothing
        ("decrypt(encrypt(email, 'pii'), 'pii')", True),
        ("reveal(town)", True),
        ("detokenize(town, 'visitor')", True),
        ("(SELECT count(email) FROM raw.people)", False),
        ("(SELECT max(email) FROM raw.people)", True),
        ("town", False),
    ],
)
def test_an_expression_passes_the_tag_on_unless_it_hides_the_value(
    tmp_path: Path, expression: str, is_tagged: bool
) -> None:
    flow = flow_of(tmp_path, f"TRANSFORM m.a PARTITIONED AS SELECT id, {expression} AS x FROM raw.people;")
    assert tagged(flow, "m.a") == ({"x": True} if is_tagged else {})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM raw.open", {"email": True}),
        ("SELECT * EXCEPT (email) FROM raw.open", {}),
        ("SELECT * EXCEPT (email), mask_text(email) AS email FROM raw.open", {}),
        ("SELECT * FROM raw.people", {"email": True, "born": True}),
        ("SELECT * EXCEPT (born) FROM raw.people", {"email": True}),
        ("WITH a AS (SELECT email AS y FROM raw.people) SELECT y AS z FROM a", {"z": True}),
        ("SELECT id, email FROM raw.people UNION ALL BY NAME SELECT id, town AS email FROM raw.people",
         {"email": True}),
        ("SELECT town FROM raw.people WHERE email LIKE '%@x'", {}),
        ("SELECT email, count(*) AS n FROM raw.people GROUP BY email", {"email": True}),
        ("SELECT count(DISTINCT email) AS n, count_if(email = '') AS m FROM raw.people", {}),
        ("SELECT approx_count_distinct(email) AS k FROM raw.people", {}),
    ],
)  # fmt: skip
def test_a_query_passes_the_tag_on_by_value(tmp_path: Path, query: str, expected: dict[str, bool]) -> None:
    assert tagged(flow_of(tmp_path, f"TRANSFORM m.a PARTITIONED AS {query};"), "m.a") == expected


@pytest.mark.parametrize(("tags", "expected"), [("", {}), (" TAGS (pii)", {"who": True})])
def test_the_tag_ends_at_tokens_unless_the_column_has_it(tmp_path: Path, tags: str, expected: dict[str, bool]) -> None:
    columns = f"who STRING SUBJECT reader TOKENS{tags}, id BIGINT"
    text = f"TRANSFORM m.a PARTITIONED ({columns}) AS SELECT email AS who, id FROM raw.people;"
    assert tagged(flow_of(tmp_path, text), "m.a") == expected


def test_the_pii_tag_propagates_through_views_tables_and_recollected_publishes(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "CREATE VIEW v.a AS SELECT email AS e, id FROM raw.people;"
        "TRANSFORM m.a PARTITIONED AS SELECT e AS mail, id FROM v.a;"
        "PUBLISH m.a (id, sent AS (lower(mail)) TAGS (pii)) TO out.a;"
        "COLLECT back.a PARTITIONED (id BIGINT, sent STRING) FROM out.a EVERY DAY BY ARRIVAL TIME;"
        "TRANSFORM m.b PARTITIONED AS SELECT * FROM back.a;",
    )
    assert tagged(flow, "m.b") == {"sent": True}
    lineage = ColumnLineage(flow, calls=find_followed_calls(flow.functions))
    found = find_personal_columns(lineage, list_tagged_columns(flow))
    last = next(each for each in found if each.column == ColumnOf("m.b", "sent"))
    assert [str(each) for each in find_first_columns(found, last)] == ["raw.people.email"]


QUEUE = (
    "CREATE CONNECTION forms TYPE forms; COLLECT mdm.codes (id BIGINT KEY, code STRING) FROM forms.codes EVERY DAY;"
    "TRANSFORM m.a (id BIGINT {tag}, code STRING TAGS (pii)) AS SELECT id, max(code) AS code FROM mdm.codes "
    "GROUP BY id;"
    "PUBLISH m.a (id TAGS (pii), code TAGS (pii)) TO forms.codes MERGE ON (id);"
)


def test_hints_of_a_publish_to_a_form_give_its_rows_no_tag(tmp_path: Path) -> None:
    assert tagged(flow_of(tmp_path, QUEUE.format(tag="")), "mdm.codes") == {"id": True}


def test_in_a_cycle_the_tag_originates_in_the_columns_that_declare_it(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, QUEUE.format(tag="TAGS (pii)"))
    lineage = ColumnLineage(flow, calls=find_followed_calls(flow.functions))
    found = find_personal_columns(lineage, list_tagged_columns(flow))
    collected = next(each for each in found if each.column == ColumnOf("mdm.codes", "id"))
    assert {str(each) for each in find_first_columns(found, collected)} == {"m.a.id", "forms.codes.id"}


def test_a_column_with_no_pii_ends_the_tag_for_all_that_derive_from_it(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "TRANSFORM m.a PARTITIONED (half STRING TAGS (no_pii), *) AS SELECT id, left(email, 2) AS half, email "
        "FROM raw.people; TRANSFORM m.b PARTITIONED AS SELECT half, email FROM m.a;",
    )
    assert tagged(flow, "m.a") == tagged(flow, "m.b") == {"email": True}


def test_a_table_that_reads_itself_has_the_tag_of_its_input(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "TRANSFORM m.a (id BIGINT KEY, first STRING, last STRING) AS SELECT id, max(email) AS first, "
        "max(f) AS last FROM "
        "(SELECT id, email, first AS f FROM raw.people LEFT JOIN PREVIOUS(m.a) USING (id)) GROUP BY id;",
    )
    assert set(tagged(flow, "m.a")) == {"first", "last"}


def test_code_that_cannot_be_analyzed_may_pass_the_tag_to_every_undecided_column(tmp_path: Path) -> None:
    code = (
        "import waterclock as wc\n\n"
        "@wc.transform('m.code', partitioned=True, columns='n BIGINT TAGS (no_pii), m INT, *')\n"
        "def code(people=wc.table('raw.people'), *, window: wc.Window) -> wc.DataFrame:\n    return people\n"
    )
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "code.py").write_text(code)
    flow = flow_of(tmp_path, "TRANSFORM m.a PARTITIONED AS SELECT n, m, other FROM m.code;")
    assert tagged(flow, "m.code") == {"m": False, "*": False}
    assert tagged(flow, "m.a") == {"m": False, "other": False}


def test_no_query_is_parsed_without_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text('[project]\nname = "x"\n')
    text = BEFORE.replace("TAGS (pii)", "").replace("decrypt", "encrypt")
    (tmp_path / "flows" / "all.dpl").write_text(text + "TRANSFORM m.a PARTITIONED AS SELECT email FROM raw.people;")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "k").write_text("k" * 40)
    monkeypatch.setattr(ColumnLineage, "trace_table", lambda *_: pytest.fail("a query was parsed"))
    assert check_project(tmp_path, capabilities=capabilities())[1] == ()
