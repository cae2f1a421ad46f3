"""The lineage from plans of a code version is stored once, and shown only for the current code."""

from __future__ import annotations

from dataclasses import replace

from tests.ledgers import Desk, table
from waterclock.flow.code_lineage import CodeLineage, Origin


def test_lineages_recorded_for_the_same_code_are_merged(at_desk: Desk) -> None:
    of = replace(table("mart.m", partitioned=True), fingerprint="new")
    at_desk.apply(of)
    one = CodeLineage({"x": Origin(frozenset({("raw.a", "x")}))})
    other = CodeLineage({"x": Origin(frozenset({("raw.a", "y")}))}, {"filter": frozenset({("raw.a", "z")})})
    lineage = at_desk.ledger.lineage
    assert lineage.of_code(at_desk.flow) == {}
    assert lineage.record_code_lineage("mart.m", "old", other) == other
    assert lineage.of_code(at_desk.flow) == {}
    assert lineage.record_code_lineage("mart.m", "new", one) == one
    assert lineage.record_code_lineage("mart.m", "new", one) == one
    assert lineage.record_code_lineage("mart.m", "new", other) == one | other
    assert lineage.of_code(at_desk.flow) == {"mart.m": one | other}
