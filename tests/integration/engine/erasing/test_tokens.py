"""TOKENS stores random tokens instead of persons' values: equal for a value in all tables, and never computable."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.branches import Branched, contents
from tests.faults.killing import wait_for_leases
from tests.faults.test_kill import said_by, started
from tests.integration.engine.erasing.test_erasing import keys, places_with, run
from tests.keys import DECLARED
from tests.tiny import Tiny, day
from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.engine.erasing.erasing import ErasureResult, erase, plan_erasure
from waterclock.engine.erasing.request import build_request
from waterclock.engine.erasing.search import search_table, searched_places
from waterclock.engine.maintenance.rebuild_all import rebuild_all
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.storage.lake import vault_folder
from waterclock.storage.slices.manifest import read_manifest
from waterclock.storage.token_vault import find_tokens
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["keys"]  # a fixture of all tests

FLOW = (
    DECLARED
    + """
COLLECT raw.visits PARTITIONED (id BIGINT, person STRING SUBJECT customer TOKENS, email STRING, page STRING,
  at TIMESTAMP) FROM shop.visits EVERY DAY BY DATA TIME at;
COLLECT raw.people (person STRING KEY SUBJECT customer TOKENS, land STRING) FROM shop.people EVERY DAY;
TRANSFORM web.visits PARTITIONED (id BIGINT KEY, person STRING SUBJECT customer, email STRING, page STRING)
  APART (email)
AS SELECT id, person, email, page FROM raw.visits;
TRANSFORM marts.newest (person STRING KEY, page STRING, at TIMESTAMP) MERGE ORDER BY at
AS SELECT person, page, at FROM raw.visits WHERE person IS NOT NULL;
TRANSFORM marts.lands PARTITIONED AS SELECT v.id, p.land FROM raw.visits v JOIN raw.people p ON p.person = v.person;
TRANSFORM safe.people PARTITIONED (id BIGINT, who STRING SUBJECT customer)
AS SELECT id, detokenize(person, 'customer') AS who FROM raw.visits;
"""
)
ADA, EVA = "ada.lovelace", "eva.crane"
ROWS = [
    (1, ADA, "ada@one.example", "/a", "2020-01-01 10:00:00"),
    (2, EVA, "eva@one.example", "/b", "2020-01-01 11:00:00"),
    (3, None, None, "/b", "2020-01-01 12:00:00"),
    (4, ADA, "ada@two.example", "/c", "2020-01-02 10:00:00"),
    (5, "joe.new", None, "/c", "2020-01-02 10:00:00"),
]
TOKENS = "SELECT id, person FROM raw.visits ORDER BY id"


def project(root: Path, spark: SparkSession, flow: str = FLOW) -> Tiny:
    root.mkdir(parents=True, exist_ok=True)
    tiny = Tiny(root, spark)
    tiny.declare(flow)
    fill(tiny)
    return tiny


def fill(tiny: Tiny) -> None:
    """Fill the sources."""
    tiny.source("visits", "id INT, person TEXT, email TEXT, page TEXT, at TEXT", ROWS)
    tiny.source("people", "person TEXT, land TEXT", [(ADA, "uk"), (EVA, "us"), ("joe.new", "fr")])


def tokens(tiny: Tiny) -> dict[str, str]:
    """Return the token of each person in the events; fail if a person has several."""
    made: dict[str, set[str]] = {}
    stored = dict(tiny.rows(TOKENS))
    for number, person, *_ in ROWS:
        if person is not None:
            made.setdefault(person, set()).add(stored[number])
    assert all(len(each) == 1 for each in made.values()), made
    return {person: each.pop() for person, each in made.items()}


def test_a_person_has_one_random_token_in_all_tables(tmp_path: Path, spark: SparkSession) -> None:
    tiny = project(tmp_path / "one", spark)
    run(tiny)
    found = tokens(tiny)
    assert len(set(found.values())) == 3
    assert all(re.fullmatch(r"[0-9a-f]{32}", token) for token in found.values())
    assert dict(tiny.rows(TOKENS))[3] is None
    assert {row[0] for row in tiny.rows("SELECT person FROM raw.people")} == set(found.values())
    assert sorted(tiny.rows("SELECT id, land FROM marts.lands")) == [(1, "uk"), (2, "us"), (4, "uk"), (5, "fr")]
    assert sorted(tiny.rows("SELECT page FROM marts.newest")) == [("/b",), ("/c",), ("/c",)]
    assert sorted(tiny.rows("SELECT id, who FROM safe.people")) == [(row[0], row[1]) for row in ROWS]
    stored = {place.split("/")[0] if "tables/" not in place else place for place in places_with(tiny, ADA)}
    assert {each for each in stored if "tables/" in each and "safe/people" not in each} == set()
    with pytest.raises(WaterclockError, match="E216"):
        tiny.rows("SELECT detokenize(person, 'customer') FROM raw.visits")
    other = project(tmp_path / "other", spark)  # with the same keys and values
    run(other)
    assert not set(tokens(other).values()) & set(found.values())


def test_a_label_that_is_made_again_has_the_same_tokens(tmp_path: Path, spark: SparkSession) -> None:
    tiny = project(tmp_path, spark)
    run(tiny)
    before, digests = tokens(tiny), tiny.digests()
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("raw.visits", [day(1)], "recollect", who="ann")
    run(tiny)
    assert tiny.runs_of("raw.visits") > 2, "it was not collected again"
    assert (tokens(tiny), tiny.digests()) == (before, digests)


def test_a_window_that_is_read_again_has_no_row_twice(tmp_path: Path, spark: SparkSession) -> None:
    """Stored rows with tokens equal rows of the source with values; for equal keys, the source's row is kept."""
    folds = "".join(
        f"COLLECT raw.{name} (person STRING KEY SUBJECT customer TOKENS, page STRING, at TIMESTAMP) "
        f"FROM shop.visits EVERY DAY BY DATA TIME at LOOKBACK 3 DAYS {mode};"
        for name, mode in (("merged", "MERGE ORDER BY at"), ("temporal", "TEMPORAL AT at"))
    )
    tiny = project(tmp_path, spark, DECLARED + folds)
    tiny.shop("DELETE FROM visits WHERE person IS NULL")  # a row without a key
    run(tiny, 2)
    run(tiny, 3)
    tiny.shop("UPDATE visits SET page = '/new' WHERE id = 2")
    tiny.shop("DELETE FROM visits WHERE id = 1")  # it was deleted from the source, and stays in the table
    run(tiny, 4)
    for table in ("raw.merged", "raw.temporal"):
        assert rows_by_label(tiny, table) == {"20200101000000": 2, "20200102000000": 2, "20200103000000": 0}
    known = vault(tiny)
    wanted = sorted([(known[ADA], "/c"), (known[EVA], "/new"), (known["joe.new"], "/c")])
    assert sorted(tiny.rows("SELECT person, page FROM raw.merged")) == wanted
    old = [(known[ADA], "/a")]
    assert sorted(tiny.rows("SELECT person, page FROM raw.temporal")) == sorted(wanted + old)


def test_a_reference_of_a_column_with_tokens_is_checked_by_its_tokens(tmp_path: Path, spark: SparkSession) -> None:
    """The parent has tokens: a value without a token, or with one of another table only, has no parent."""
    flow = (
        DECLARED
        + """
COLLECT raw.people (person STRING KEY SUBJECT customer TOKENS, land STRING) FROM shop.people EVERY DAY;
COLLECT raw.visits PARTITIONED (id BIGINT, person STRING, at TIMESTAMP) FROM shop.visits EVERY DAY BY DATA TIME at;
TRANSFORM web.visits PARTITIONED
  (id BIGINT, person STRING SUBJECT customer TOKENS REFERENCES raw.people (person) ELSE DROP)
AS SELECT id, person FROM raw.visits;
"""
    )
    tiny = project(tmp_path, spark, flow)
    tiny.shop(f"DELETE FROM people WHERE person = '{EVA}'")
    run(tiny)
    known = vault(tiny)
    wanted = [(1, known[ADA]), (3, None), (4, known[ADA]), (5, known["joe.new"])]
    assert sorted(tiny.rows("SELECT id, person FROM web.visits")) == wanted
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("web.visits", [day(1)], "recompute", who="ann")
    run(tiny)
    assert sorted(tiny.rows("SELECT id, person FROM web.visits")) == wanted


def rows_by_label(tiny: Tiny, table: str) -> dict[str, int]:
    """Count the rows of the current slices of a table."""
    with tiny.opened() as work:
        folder = work.folder(work.flow.tables[table])
        found = work.ledger.reads.slices(table, BEGINNING, FOREVER)
        return {label_of(piece.label): read_manifest(folder, piece.slice_path).rows for piece in found}


def test_a_rebuild_of_all_tables_keeps_tokens_and_values(tmp_path: Path, spark: SparkSession) -> None:
    """Its tables are built in a separate folder, with the vault of the storage."""
    again = "TRANSFORM marts.again PARTITIONED (id BIGINT, person STRING SUBJECT customer TOKENS) "
    tiny = project(tmp_path, spark, FLOW + again + "AS SELECT id, person FROM raw.visits;")
    run(tiny)
    before, known = tokens(tiny), vault(tiny)
    with tiny.opened() as work:
        rebuild_all(work, day(3))
    assert (tokens(tiny), vault(tiny)) == (before, known)
    made = sorted(tiny.rows("SELECT id, person FROM marts.again"))
    assert made == sorted(tiny.rows("SELECT id, person FROM raw.visits"))
    assert sorted(tiny.rows("SELECT id, who FROM safe.people")) == [(row[0], row[1]) for row in ROWS]


@pytest.mark.parametrize("point", ["tokens.written", "tokens.committed"])
def test_a_kill_changes_no_token(tmp_path: Path, spark: SparkSession, point: str) -> None:
    """A killed batch may leave values with tokens: the next attempt uses these."""
    tiny = project(tmp_path, spark)
    with started(spark, str(tmp_path), "runner", point, "raw.visits", day(3).isoformat()) as process:
        assert process.wait(120) == -signal.SIGKILL, said_by(process)
    before = vault(tiny)
    assert point == "tokens.written" or before.keys() == {ADA, EVA, "joe.new"}
    wait_for_leases(tiny)
    run(tiny)
    found = tokens(tiny)
    assert found.keys() == {ADA, EVA, "joe.new"}
    assert before.items() <= found.items()


def test_a_branch_reads_the_tokens_of_its_base(tmp_path: Path, spark: SparkSession) -> None:
    production = Branched(tmp_path, spark)
    production.declare(FLOW)
    production.source("visits", "id INT, person TEXT, email TEXT, page TEXT, at TEXT", ROWS)
    production.source("people", "person TEXT, land TEXT", [(ADA, "uk")])
    run(production)
    before = contents(tmp_path / ".prod")
    branch = production.of("try")
    branch.create(day(3))
    branch.declare(
        FLOW.replace("detokenize(person, 'customer') AS who", "upper(detokenize(person, 'customer')) AS who")
    )
    branch.make()
    found = sorted(branch.rows("SELECT id, who FROM safe.people"))
    assert found == [(row[0], None if row[1] is None else row[1].upper()) for row in ROWS]
    assert contents(tmp_path / ".prod") == before


def test_an_erased_person_is_removed_with_the_token(tmp_path: Path, spark: SparkSession) -> None:
    """The events of APART stay, with a pseudonym made from the token, which is deleted."""
    flow = FLOW.partition("TRANSFORM marts.lands")[0]
    tiny = project(tmp_path, spark, flow)
    run(tiny)
    token = tokens(tiny)[ADA]
    with tiny.opened() as work:
        places = set(list_places(work, ADA))
    assert places == {"raw.visits", "raw.people", "web.visits_apart", "marts.newest"}
    with pytest.raises(RuntimeError), inject_faults(stop_at("tokens.copied")):
        erased_of(tiny, ADA)
    with pytest.raises(RuntimeError), inject_faults(stop_at("tokens.erased")):
        erased_of(tiny, ADA, continues=True)
    result = erased_of(tiny, ADA, continues=True)
    assert result.left == ()
    assert result.erasure.steps["tokens"] == {"tokens": 1}
    assert set(vault(tiny)) == {EVA, "joe.new"}
    for text in (ADA, token):
        assert list(places_with(tiny, text)) == []
    assert tiny.rows("SELECT id FROM raw.visits ORDER BY id") == [(2,), (3,), (5,)]
    whole = "SELECT id, email FROM web.visits_whole ORDER BY id"
    assert tiny.rows(whole) == [(1, None), (2, "eva@one.example"), (3, None), (4, None), (5, None)]
    tiny.shop(f"INSERT INTO visits VALUES (6, '{ADA}', 'x', '/d', '2020-01-03 10:00:00')")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("raw.visits", [day(1)], "recollect", who="ann")
    run(tiny, 4)
    assert tiny.rows("SELECT id FROM raw.visits ORDER BY id") == [(2,), (3,), (5,)]
    assert ADA not in vault(tiny)


def erased_of(tiny: Tiny, value: str, *, continues: bool = False) -> ErasureResult:
    with tiny.opened() as work:
        request = build_request(work, "customer", [value])
        return erase(work, plan_erasure(work, request, continues=continues), why="on request")


def list_places(work: RunContext, value: str) -> list[str]:
    """Return the tables with rows of a person."""
    request = build_request(work, "customer", [value])
    return [each.name for of, each in searched_places(work, request) if search_table(of, request, each).rows]


def stop_at(point: str) -> Callable[[str], None]:
    def stop(name: str) -> None:
        if name == point:
            raise RuntimeError(point)

    return stop


def vault(tiny: Tiny) -> dict[str, str]:
    """Return the stored content of the vault."""
    folder = vault_folder(str(tiny.root / tiny.storage), "customer")
    return find_tokens(folder, [ADA, EVA, "joe.new"])
