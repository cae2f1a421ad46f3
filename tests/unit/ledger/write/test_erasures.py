"""The ledger records erased persons as hashes, and an erased table makes none of its readers stale."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.ledgers import Desk, day, result, table
from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.flow.enums import Kind, Mode
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.write.committed_claims import CommittedClaim


def erase(at_desk: Desk, name: str, *labels: float, digest: str = "1:9:9") -> int:
    """Record new revisions of some days, as an erasure does."""
    ledger = at_desk.ledger
    number = ledger.erasures.begin("customer", "pii/1", ["a", "b"], {"a.b": ["id"]}, who="ann", why="asked")
    claim, _ = ledger.maintenance.begin_rebuild(name, who="ann")
    request = at_desk.request(name, *labels, restates="rebuild")
    results = tuple(result(label, digest=digest, version=50) for label in labels)
    found = CommittedClaim(claim, request, results, BEGINNING + timedelta(days=1))
    ledger.erasures.record_table(number, found, who="ann", step="slices", result={"rows": 1})
    return number


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.REPLACE, Mode.MERGE])
def test_an_erased_table_makes_no_reader_stale_but_its_deliveries(at_desk: Desk, mode: Mode) -> None:
    keys = ("id",) if mode is Mode.MERGE else ()
    source = table("source", mode=mode, keys=keys)
    reader, second = (
        table("reader", partitioned=True, reads=["source"]),
        table("second", partitioned=True, reads=["reader"]),
    )
    delivery = replace(table("out", reads=["source"], kind=Kind.PUBLISH), mode=Mode.REPLACE)
    at_desk.apply(source, reader, second, delivery)
    for number in (0, 1):
        at_desk.done("source", number)
        low = number if mode is not Mode.MERGE else 0
        at_desk.done("reader", number, reads={number: [at_desk.read("source", low, number + 1)]})
        at_desk.done("second", number, reads={number: [at_desk.read("reader", number, number + 1)]})
        at_desk.done("out", number, reads={number: [at_desk.read("source", low, number + 1)]})
    erase(at_desk, "source", 0)
    stale = at_desk.suspects("reader", "second", "out")
    assert {name for name, _ in stale} == {"out"}
    assert ("out", day(0)) in stale


def test_a_reader_that_was_stale_before_stays_stale(at_desk: Desk) -> None:
    at_desk.apply(table("source"), table("reader", partitioned=True, reads=["source"]))
    at_desk.done("source", 0)
    at_desk.done("reader", 0, reads={0: [at_desk.read("source", 0, 1)]})
    at_desk.ledger.decisions.request_restate("source", [day(0)], "recompute", who="ann")
    at_desk.done("source", 0, digest="1:7:7")
    assert at_desk.suspects("reader") == {("reader", day(0))}
    erase(at_desk, "source", 0)
    assert at_desk.suspects("reader") == {("reader", day(0))}


def test_claims_know_the_last_erasure_and_steps_are_kept(at_desk: Desk) -> None:
    at_desk.apply(table("source"))
    assert at_desk.claim("source", 0).erasures == 0
    at_desk.ledger.claims.record_failed(at_desk.ledger.claims.open()[0], error="x", is_transient=False)
    at_desk.done("source", 1)
    number = erase(at_desk, "source", 1)
    assert at_desk.claim("source", 2).erasures == number == 1
    [erasure] = at_desk.ledger.erasures.list()
    assert erasure.hashes == {"a", "b"}
    assert erasure.steps == {"columns of a.b": {"columns": ["id"]}, "slices": {"rows": 1}}
    assert erasure.columns == {"a.b": ("id",)}
    assert erasure.finished_at is None
    at_desk.ledger.erasures.finish(number, who="ann")
    assert at_desk.ledger.erasures.list()[0].finished_at is not None


def test_a_ledger_without_its_erasures_gets_them_from_the_files(at_desk: Desk) -> None:
    at_desk.apply(table("source"))
    at_desk.ledger.erasures.begin("customer", "pii/1", ["a"], {}, who="ann", why="asked")
    known = at_desk.ledger.erasures.list()
    with Ledger.open("sqlite://") as fresh:
        assert fresh.erasures.restore(known) == 1
        assert fresh.erasures.restore(known) == 0
        assert fresh.erasures.list() == known
        assert fresh.erasures.begin("customer", "pii/1", ["b"], {}, who="ann", why="again") == 2


def test_values_are_removed_from_texts(at_desk: Desk) -> None:
    at_desk.apply(table("source"))
    at_desk.ledger.claims.record_failed(
        at_desk.claim("source", 0), error="row of anna.k@example.org, customer 42: 142 is no date", is_transient=False
    )
    at_desk.done("source", 1)
    assert at_desk.ledger.erasures.redact_texts(["42", "anna.k@example.org"]) >= 2
    cell = next(each for each in at_desk.ledger.past.grid(["source"]) if each.label == day(0))
    assert cell.error == "row of (erased), customer (erased): 142 is no date"
    assert at_desk.ledger.erasures.redact_texts(["42", "anna.k@example.org"]) == 0
