"""Query plans of SQLite: tables that grow with history are never scanned in full."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from tests.ledgers import Desk
from waterclock.ledger.read import (
    content,
    current,
    dependents,
    measures,
    provenance,
    rule_notes,
    run_events,
    schemas,
    snapshot,
    states,
    status,
    table_history,
    table_progress,
)
from waterclock.ledger.write import (
    claim_endings,
    claims,
    completion,
    coverage,
    decisions,
    flow_declarations,
    suspect_batches,
)

MODULES = (
    flow_declarations, table_history, claims, claim_endings, content, coverage, decisions, provenance, current,
    completion, run_events, measures, rule_notes, dependents, schemas, snapshot, status, suspect_batches,
    table_progress,
)  # fmt: skip
GROWING = ("batches", "claim_labels", "claims", "events", "inputs", "items", "revisions", "schemas", "versions")
STATEMENTS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": statement
    for module in MODULES
    for name, statement in vars(module).items()
    if isinstance(statement, (sa.Select, sa.CompoundSelect, sa.Update, sa.Delete))
} | {
    "content.standing": content._select_covering_slices(2),
    "states.newest_before": states._select_first_rows(states._select_newest, 2),
    "states.standing_at": states._select_first_rows(states._select_covering_batch, 2),
}


@pytest.mark.parametrize("at_desk", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_no_statement_reads_history_from_end_to_end(at_desk: Desk, name: str) -> None:
    plan = plan_of(at_desk, name)
    assert [line for line in plan if line.startswith("SCAN") and line.split()[1] in GROWING and _is_whole(line)] == []


@pytest.mark.parametrize("at_desk", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", ["dependents._READERS", "provenance._READERS", "suspect_batches._READERS"])
def test_readers_of_an_old_interval_are_found_without_those_of_newer_ones(at_desk: Desk, name: str) -> None:
    looks = [line for line in plan_of(at_desk, name) if " inputs " in line]
    assert [re.sub(r".*INDEX ", "", line) for line in looks] == [
        "inputs_read (table_name=? AND high>? AND high<?)",
        "inputs_read_long (table_name=? AND high>?)",
    ]


@pytest.mark.parametrize("at_desk", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("name", "look"),
    [
        ("table_history._CHANGED", "SEARCH claims USING INDEX claims_done (closed_at>?)"),
        (
            "current._COMMITTED_SINCE",
            "SEARCH revisions USING COVERING INDEX revisions_of_version (table_name=? AND version>?)",
        ),
    ],
)
def test_newer_rows_are_found_by_an_index_search_without_older_ones(at_desk: Desk, name: str, look: str) -> None:
    assert look in plan_of(at_desk, name)


def plan_of(desk: Desk, name: str) -> list[str]:
    compiled = str(STATEMENTS[name].compile(dialect=sqlite.dialect()))
    text = re.sub(r"\(__\[POSTCOMPILE_\w+\]\)", "(?, ?)", _separated(compiled))
    with desk.ledger._database.read() as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", (1,) * text.count("?"))
        return [row[3] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("at_desk", ["postgres"], indirect=True)
@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_each_statement_has_an_index_of_postgresql_too(at_desk: Desk, name: str) -> None:
    """If full scans are made expensive, PostgreSQL uses them only without an alternative."""
    compiled = str(STATEMENTS[name].compile(dialect=sa.make_url("postgresql://").get_dialect()()))
    text = re.sub(r"\(__\[POSTCOMPILE_\w+\]\)", "('1', '1')", _separated(compiled))
    text = re.sub(r"%\(\w+\)s", "'1'", text)
    with at_desk.ledger._database.read() as connection:
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        [plan] = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {text}").scalar_one()
    assert [node for node in _nodes(plan["Plan"]) if _reads_all(node)] == []


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)


def _reads_all(node: dict[str, Any]) -> bool:
    kind, index = node["Node Type"], node.get("Index Name", "")
    if kind == "Seq Scan":
        return node["Relation Name"] in GROWING
    return (
        kind in {"Index Scan", "Index Only Scan", "Bitmap Index Scan"} and "Index Cond" not in node and _is_large(index)
    )


def _is_large(index: str) -> bool:
    return _is_whole(index) and any(index.startswith(table) for table in GROWING)


def _is_whole(line: str) -> bool:
    """Return whether a plan's line scans a whole table, except small indexes of failed, suspect or open batches."""
    return not any(
        small in line
        for small in ("claims_open", "batches_suspect", "batches_requested", "batches_partial", "batches_in_")
    )


def _separated(compiled: str) -> str:
    return re.sub(r"__\[POSTCOMPILE_aggregate_strings\w+\]", "','", compiled)
