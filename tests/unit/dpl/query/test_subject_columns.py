"""Columns that are copies of a SUBJECT column are found in both directions, and tables that cannot be searched."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.dpl.query.subject_columns import SubjectColumns, find_subject_columns, list_subjects

BEFORE = """
CREATE CONNECTION landing TYPE files OPTIONS (path 'in');
COLLECT raw.orders PARTITIONED (id BIGINT, buyer BIGINT SUBJECT customer, seller BIGINT, town STRING)
  FROM landing.orders EVERY DAY START '2024-01-01' BY ARRIVAL TIME;
COLLECT raw.people PARTITIONED (id BIGINT, name STRING) FROM landing.people EVERY DAY START '2024-01-01'
  BY ARRIVAL TIME;
"""


def found(folder: Path, text: str) -> SubjectColumns:
    (folder / "flows").mkdir(exist_ok=True)
    (folder / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (folder / "flows" / "all.dpl").write_text(BEFORE + text)
    flow = load_project(folder, capabilities=capabilities()).flow
    return find_subject_columns(ColumnLineage(flow), list_subjects(flow)["customer"])


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("TRANSFORM m.a PARTITIONED AS SELECT buyer AS client, id FROM raw.orders;", ("client",)),
        ("TRANSFORM m.a PARTITIONED AS SELECT * FROM raw.orders;", ("buyer",)),
        ("TRANSFORM m.a PARTITIONED AS SELECT o.buyer FROM raw.orders o JOIN raw.people p ON p.id = o.id;", ("buyer",)),
        ("TRANSFORM m.a PARTITIONED AS WITH x AS (SELECT buyer AS b FROM raw.orders) SELECT b FROM x;", ("b",)),
        ("TRANSFORM m.a PARTITIONED AS SELECT buyer + 1 AS client FROM raw.orders;", ()),
        ("TRANSFORM m.a PARTITIONED AS SELECT coalesce(buyer, seller) AS client FROM raw.orders;", ()),
        ("TRANSFORM m.a PARTITIONED AS SELECT id FROM raw.orders;", ()),
        # computed within a subquery, a CTE or a view, and only named outside
        ("TRANSFORM m.a PARTITIONED AS SELECT c FROM (SELECT concat('c', buyer) AS c FROM raw.orders);", ()),
        ("TRANSFORM m.a PARTITIONED AS WITH x AS (SELECT buyer + 1 AS c FROM raw.orders) SELECT c FROM x;", ()),
        (
            """CREATE VIEW m.v AS SELECT CAST(buyer AS STRING) AS c FROM raw.orders;
            TRANSFORM m.a PARTITIONED AS SELECT * FROM m.v;""",
            (),
        ),
        ("TRANSFORM m.a PARTITIONED AS SELECT c FROM (SELECT (buyer) AS c FROM raw.orders);", ("c",)),
        ("TRANSFORM m.a PARTITIONED AS SELECT (SELECT max(buyer) FROM raw.orders) AS c FROM raw.orders;", ()),
        ("TRANSFORM m.a PARTITIONED AS SELECT buyer AS c FROM raw.orders UNION ALL SELECT 0 FROM raw.orders;", ()),
        # a union that mixes persons with others: removing rows by value would remove rows of others
        (
            """TRANSFORM m.a PARTITIONED AS SELECT buyer AS who FROM raw.orders
            UNION ALL BY NAME SELECT id AS who FROM raw.people;""",
            (),
        ),
    ],
)
def test_plain_copies_are_found_and_no_others(text: str, columns: tuple[str, ...], tmp_path: Path) -> None:
    subject = found(tmp_path, text)
    assert subject.columns.get("m.a", ()) == columns
    assert ("m.a" in subject.unsearchable) == (not columns)
    assert subject.columns["raw.orders"] == ("buyer",)


def test_a_subject_that_a_reader_declares_is_found_upstream(tmp_path: Path) -> None:
    subject = found(tmp_path, "TRANSFORM m.a PARTITIONED (who SUBJECT customer) AS SELECT id AS who FROM raw.people;")
    assert subject.columns == {"raw.orders": ("buyer",), "m.a": ("who",), "raw.people": ("id",)}


def test_readers_of_tables_that_cannot_be_searched_cannot_be_searched_either(tmp_path: Path) -> None:
    text = """
    TRANSFORM m.sums PARTITIONED AS SELECT count(*) AS n FROM raw.orders;
    TRANSFORM m.more PARTITIONED AS SELECT n + 1 AS n FROM m.sums;
    TRANSFORM m.else PARTITIONED AS SELECT name FROM raw.people;
    """
    assert found(tmp_path, text).unsearchable == {
        "m.sums": "made from raw.orders; no column identifies the person",
        "m.more": "made from m.sums; no column identifies the person",
    }


def test_the_inputs_of_a_computed_subject_cannot_be_searched(tmp_path: Path) -> None:
    subject = found(
        tmp_path,
        """
        TRANSFORM m.a PARTITIONED (who SUBJECT customer) AS SELECT CAST(name AS BIGINT) AS who FROM raw.people;
        TRANSFORM m.names PARTITIONED AS SELECT name FROM raw.people;
        """,
    )
    assert subject.columns == {"raw.orders": ("buyer",), "m.a": ("who",)}
    assert subject.unsearchable["raw.people"] == "m.a.who is computed from its column name"
    assert subject.unsearchable["m.names"] == "made from raw.people; no column identifies the person"


APART = """
CREATE CONNECTION pii TYPE keys OPTIONS (key.1 SECRET 'pii', current '1');
TRANSFORM m.a PARTITIONED (buyer BIGINT SUBJECT customer, town, *) APART (town) AS SELECT {} FROM raw.orders;
TRANSFORM m.towns PARTITIONED AS SELECT town, count(*) AS n FROM m.a_whole GROUP BY town;
TRANSFORM m.people PARTITIONED AS SELECT count(DISTINCT customer_pseudonym) AS n FROM m.a;
"""


def test_a_table_with_apart_and_its_readers_have_pseudonyms_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_PII", "0123456789abcdef" * 4)
    subject = found(tmp_path, APART.format("id, buyer, town"))
    # slices of m.a from before it had APART still have the column
    assert subject.columns == {"raw.orders": ("buyer",), "m.a_apart": ("buyer",), "m.a": ("buyer",)}
    assert subject.pseudonyms == {"m.a": "customer_pseudonym"}
    assert subject.unsearchable == {"m.towns": "made from m.a_apart; no column identifies the person"}


def test_another_column_of_the_person_in_a_table_with_apart_is_searched_or_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_PII", "0123456789abcdef" * 4)
    copied = found(tmp_path, APART.format("id, buyer, town, buyer AS payer"))
    assert copied.columns["m.a"] == ("payer", "buyer")
    assert copied.pseudonyms == {}
    computed = found(tmp_path, APART.format("id, buyer, town, buyer % 100 AS code"))
    assert computed.unsearchable["m.a"] == "made from raw.orders; code is computed"
    assert computed.unsearchable["m.people"] == "made from m.a; no column identifies the person"
    assert computed.pseudonyms == {}
