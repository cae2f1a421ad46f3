"""APART stores persons in a separate table: an erasure changes no file of the events, which keep a pseudonym."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.engine.erasing.test_erasing import erased, found, keys, maintain, places_with, run
from tests.keys import DECLARED
from tests.tiny import Tiny, day
from waterclock.engine.erasing.erasing import plan_erasure
from waterclock.engine.erasing.request import build_request
from waterclock.engine.maintenance.reset import prepare_reset, reset
from waterclock.engine.query.query import query
from waterclock.engine.run_opening import apply_flow
from waterclock.operations.erasure_certificate import build_certificate, certificate_text
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["keys"]  # a fixture of all tests

FLOW = (
    DECLARED
    + """
COLLECT raw.visits PARTITIONED (id BIGINT, buyer BIGINT SUBJECT customer, email STRING, page STRING, at TIMESTAMP)
  FROM shop.visits EVERY DAY BY DATA TIME at;
TRANSFORM web.visits PARTITIONED (id BIGINT KEY, buyer BIGINT SUBJECT customer, email STRING, page STRING)
  APART (email) FOR 2 DAYS
AS SELECT id, buyer, email, page FROM raw.visits;
TRANSFORM marts.pages PARTITIONED
AS SELECT page, count(*) AS n, count(DISTINCT customer_pseudonym) AS people FROM web.visits GROUP BY page;
TRANSFORM marts.letters PARTITIONED AS SELECT buyer AS client, email FROM web.visits_whole WHERE buyer IS NOT NULL;
"""
)
ERASED, OTHER = 4242420042, 4242420043
ROWS = [
    (1, ERASED, "ada@one.example", "/a", "2020-01-01 10:00:00"),
    (2, ERASED, "ada@two.example", "/b", "2020-01-01 11:00:00"),  # two values in one window
    (3, ERASED, "ada@one.example", "/a", "2020-01-01 12:00:00"),
    (4, OTHER, "eva@one.example", "/a", "2020-01-01 12:00:00"),
    (5, None, "guest@one.example", "/b", "2020-01-01 12:00:00"),  # the person is unknown
    (6, None, None, "/b", "2020-01-01 12:00:00"),
    (7, ERASED, None, "/c", "2020-01-02 10:00:00"),
    (8, OTHER, "eva@two.example", "/c", "2020-01-02 10:00:00"),
]
WHOLE = "SELECT id, buyer, email, page FROM web.visits_whole ORDER BY id"


def project(root: Path, spark: SparkSession) -> Tiny:
    tiny = Tiny(root, spark)
    tiny.declare(FLOW)
    tiny.source("visits", "id INT, buyer INT, email TEXT, page TEXT, at TEXT", ROWS)
    return tiny


def expected(*, known: tuple[int | None, ...] = (ERASED, OTHER, None), since: str = "") -> list[tuple[Any, ...]]:
    """Return the rows of the query, without values of persons not in `known` and of days before `since`."""
    return [
        (number, *((who, email) if who in known and at >= since else (None, None)), page)
        for number, who, email, page, at in ROWS
    ]


def files_of(tiny: Tiny, table: str) -> dict[str, str]:
    """Return the digests of a table's files, by path."""
    folder = tiny.root / tiny.storage / "tables" / table.replace(".", "/")
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_the_view_has_the_rows_of_the_query_and_the_events_have_no_person(tmp_path: Path, spark: SparkSession) -> None:
    tiny = project(tmp_path, spark)
    for table in ("web.visits", "web.visits_apart", "web.visits_whole"):  # before the first batch
        assert tiny.rows(f"SELECT customer_pseudonym FROM {table}") == []
    assert tiny.rows(WHOLE) == []
    run(tiny)
    assert tiny.rows(WHOLE) == expected()
    assert tiny.rows("SELECT count(*), count(DISTINCT customer_pseudonym) FROM web.visits") == [(8, 2)]
    assert tiny.rows("SELECT count(*) FROM web.visits_apart") == [(6,)]
    assert not [place for place in places_with(tiny, ERASED) if "web/visits/" in place]
    assert sorted(tiny.rows("SELECT page, n, people FROM marts.pages")) == [("/a", 3, 2), ("/b", 3, 1), ("/c", 2, 2)]


def test_erasing_a_person_changes_no_file_of_the_events(tmp_path: Path, spark: SparkSession) -> None:
    tiny = project(tmp_path, spark)
    run(tiny)
    tables = ("web.visits", "marts.pages")
    before = {table: files_of(tiny, table) for table in tables}
    assert all(before.values())
    events = sorted(tiny.rows("SELECT * FROM web.visits"), key=repr)
    assert set(found(tiny, ERASED)) == {"raw.visits", "web.visits_apart", "marts.letters"}
    result = erased(tiny, ERASED)
    assert result.left == ()
    assert result.erasure.finished_at is not None
    assert {table: files_of(tiny, table) for table in tables} == before
    assert tiny.rows(WHOLE) == expected(known=(OTHER, None))
    assert sorted(tiny.rows("SELECT * FROM web.visits"), key=repr) == events
    letters = [(OTHER, "eva@one.example"), (OTHER, "eva@two.example")]
    assert sorted(tiny.rows("SELECT client, email FROM marts.letters")) == letters
    for value in (ERASED, "ada@"):
        assert list(places_with(tiny, value)) == []
    run(tiny)
    assert {table: files_of(tiny, table) for table in tables} == before, "a batch became stale"
    with tiny.opened() as work:
        request = build_request(work, "customer", [str(OTHER)])
        certificate = build_certificate(plan_erasure(work, request, continues=False))
    assert [(each.table, each.column) for each in certificate.pseudonyms] == [("web.visits", "customer_pseudonym")]
    assert "web.visits (customer_pseudonym)" in certificate_text(certificate)


def test_the_columns_apart_have_a_retention_of_their_own(tmp_path: Path, spark: SparkSession) -> None:
    tiny = project(tmp_path, spark)
    run(tiny, 4)
    assert tiny.rows(WHOLE) == expected(since="2020-01-02")
    maintain(tiny, 4)
    assert tiny.rows("SELECT count(*) FROM web.visits") == [(8,)]
    assert tiny.rows("SELECT count(*) FROM web.visits_apart") == [(2,)]


def test_a_column_that_is_computed_of_the_person_is_left(tmp_path: Path, spark: SparkSession) -> None:
    tiny = project(tmp_path, spark)
    flow = FLOW.replace("page STRING)\n  APART", "page STRING, code STRING)\n  APART")
    tiny.declare(flow.replace("email, page FROM raw", "email, page, concat('c', buyer) AS code FROM raw"))
    run(tiny)
    result = erased(tiny, ERASED)
    why = "cannot be searched: made from raw.visits; code is computed"
    assert [each.why for each in result.left if each.place == "web.visits"] == [why]


def test_slices_from_before_apart_are_erased_as_well(tmp_path: Path, spark: SparkSession) -> None:
    tiny = project(tmp_path, spark)
    tiny.declare(FLOW.replace("\n  APART (email) FOR 2 DAYS", "").partition("TRANSFORM marts.pages")[0])
    run(tiny, 2)
    assert ERASED in {row[0] for row in tiny.rows("SELECT buyer FROM web.visits")}
    tiny.declare(FLOW.partition("TRANSFORM marts.pages")[0])
    with tiny.opened() as work:
        apply_flow(work, day(3))
        todo = prepare_reset(work, "web.visits")
        assert todo is not None
        reset(work, todo, why="APART")
    run(tiny, 3)
    assert tiny.rows(WHOLE) == expected()
    assert "web.visits" in found(tiny, ERASED)
    erased(tiny, ERASED)
    assert found(tiny, ERASED) == []
    assert list(places_with(tiny, ERASED)) == []
    assert tiny.rows(WHOLE) == expected(known=(OTHER, None))


def whole(tiny: Tiny) -> tuple[list[tuple[Any, ...]], list[tuple[str, str, int]]]:
    """Return the rows of the joining view, and the labels that it leaves out."""
    with tiny.opened() as work:
        answer = query(work, WHOLE, limit=100)
    return list(answer.rows), [(each.table, label_of(each.first), each.labels) for each in answer.unpaired]


def test_the_view_has_no_label_whose_persons_are_not_made_yet(tmp_path: Path, spark: SparkSession) -> None:
    """Their columns would be NULL, as those of an erased person are."""
    tiny = project(tmp_path, spark)
    tiny.declare(
        FLOW.replace(
            "email STRING, page STRING)\n  APART",
            "email STRING EXPECT (email IS DISTINCT FROM 'x'), page STRING)\n  APART",
        )
    )
    tiny.shop("UPDATE visits SET email = 'x' WHERE id = 8")
    tiny.run(day(3))
    known = expected()
    assert whole(tiny) == (known[:6], [("web.visits", "20200102000000", 1)])
    assert tiny.rows("SELECT count(*) FROM web.visits") == [(8,)]
    with tiny.ledger() as ledger:
        ledger.decisions.skip("web.visits_apart", [Window(day(2), day(3))], who="ann", why="lost")
    assert whole(tiny) == ([*known[:6], *((number, None, None, "/c") for number in (7, 8))], [])
    tiny.shop("UPDATE visits SET email = 'eva@two.example' WHERE id = 8")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("raw.visits", [day(2)], "recollect", who="ann")
    run(tiny, 3)
    with tiny.ledger() as ledger:
        ledger.decisions.retry("web.visits_apart", [day(2)], who="ann")
    run(tiny, 3)
    assert whole(tiny) == (known, [])
    # when a label's events are made again from other rows, they do not show the earlier persons
    tiny.shop("UPDATE visits SET email = 'x' WHERE id = 1")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("raw.visits", [day(1)], "recollect", who="ann")
    tiny.run(day(3))
    assert whole(tiny) == (known[6:], [("web.visits", "20200101000000", 1)])


def test_the_view_shows_labels_of_events_that_read_more_than_their_persons(tmp_path: Path, spark: SparkSession) -> None:
    """KEY ... PAST reads the events themselves, which the table of persons does not contain."""
    tiny = project(tmp_path, spark)
    key = "visits PARTITIONED (id BIGINT KEY"
    tiny.declare(FLOW.replace(f"{key},", f"{key} PAST 2 DAYS ELSE DROP,"))
    run(tiny, 3)
    assert whole(tiny) == (expected(), [])
