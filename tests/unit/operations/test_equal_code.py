"""A changed statement makes the same rows only if it differs only in aliases, and all that it uses is unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.engine.branching.test_table_changes import FLOW, load, state_of
from waterclock.batches.former_names import FormerNames
from waterclock.engine.branching.table_changes import TableChanges
from waterclock.operations.equal_code import differs_only_in_aliases, find_branch_changes

JOINED = "SELECT p.id, q.x FROM v.used p JOIN raw.b q2 ON p.id = q2.id JOIN raw.a q ON q.id = p.id"
OTHER = "SELECT s.id, t.x FROM v.used s JOIN raw.b p ON s.id = p.id JOIN raw.a t ON t.id = s.id"
BASE = FLOW.replace("SELECT id, x FROM v.used", JOINED)


def changes(folder: Path, *replacements: tuple[str, str]) -> TableChanges:
    state, flow = state_of(load(folder, BASE)), BASE
    for old, new in replacements:
        assert old in flow
        flow = flow.replace(old, new)
    project = load(folder, flow)
    return find_branch_changes(project, project.flow, state, FormerNames())


def test_other_aliases_make_nothing(tmp_path: Path) -> None:
    found = changes(tmp_path, (JOINED, f"/* other names */ {OTHER}"))
    assert (found.own, found.publishes) == ((), ())
    assert "core.c" in found.borrowed


@pytest.mark.parametrize(
    "also",
    [
        ("SELECT id, x FROM raw.a", "SELECT id, x * 2 AS x FROM raw.a"),  # a view that the statement uses
        ("EXPECT id > 0", "EXPECT id > 1"),
        ("(id KEY, *)", "(id BIGINT KEY, *)"),
        ("raw.b p ON s.id", "raw.b p ON p.id"),
    ],
)
def test_another_difference_may_change_rows(tmp_path: Path, also: tuple[str, str]) -> None:
    found = changes(tmp_path, (JOINED, OTHER), also)
    assert (found.changed, found.affected) == (("core.c",), ("mart.e",))


def test_another_changed_table_is_still_made(tmp_path: Path) -> None:
    found = changes(tmp_path, (JOINED, OTHER), ("SELECT id FROM raw.b", "SELECT id + 1 AS id FROM raw.b"))
    assert found.own == ("core.d",)


@pytest.mark.parametrize(
    ("before", "after", "equal"),
    [
        ("SELECT x.id FROM raw.a x", "select  y.id from raw.a y -- a remark", True),
        ("SELECT x.id FROM raw.a x", "SELECT y.id FROM raw.a AS y", False),  # unknown: other tokens
        ("SELECT x.id AS i FROM raw.a x", "SELECT x.id AS j FROM raw.a x", False),
        ("SELECT x.id FROM raw.a x", "SELECT `x`.id FROM raw.a `x`", True),
        ("SELECT x.id + 1 AS n FROM raw.a x", "SELECT y.id + 1 AS n FROM raw.a y", True),
        ("SELECT x.id + 1 FROM raw.a x", "SELECT y.id + 1 FROM raw.a y", False),  # unknown: its name is derived
        ("SELECT x.a.b AS n FROM raw.a x", "SELECT y.a.b AS n FROM raw.a y", True),
        ("SELECT 'x' AS n, x.id FROM raw.a x", "SELECT 'y' AS n, y.id FROM raw.a y", False),
        ("SELECT x.id FROM raw.a x JOIN raw.b y USING (id)", "SELECT y.id FROM raw.a y JOIN raw.b x USING (id)", True),
        ("SELECT x.id FROM raw.a x JOIN raw.b y USING (id)", "SELECT y.id FROM raw.a x JOIN raw.b y USING (id)", False),
        ("WITH w AS (SELECT x.id FROM raw.a x) SELECT w.* FROM w",
         "WITH v AS (SELECT w.id FROM raw.a w) SELECT v.* FROM v", True),
        ("SELECT x.id FROM PAST(raw.a, '2 days') x", "SELECT y.id FROM PAST(raw.a, '2 days') y", True),
        ("SELECT x.id FROM PAST(raw.a, '2 days') x", "SELECT y.id FROM PAST(raw.a, '3 days') y", False),
        ("SELECT x.c FROM raw.a y LATERAL VIEW explode(y.l) x AS c",
         "SELECT z.c FROM raw.a y LATERAL VIEW explode(y.l) z AS c", False),
        ("SELECT /*+ BROADCAST(x) */ x.id FROM raw.a x", "SELECT /*+ BROADCAST(x) */ y.id FROM raw.a y", False),
    ],
)  # fmt: skip
def test_aliases_of_sources_alone_are_ignored(before: str, after: str, equal: bool) -> None:
    old, new = (f"TRANSFORM m.t PARTITIONED EXPECT id > 0 AS {query}" for query in (before, after))
    assert differs_only_in_aliases(old, new, {}) is equal


def test_spaces_of_texts_in_rules_count() -> None:
    one, two = ("TRANSFORM m.t PARTITIONED EXPECT n <> 'a" + space + "b' AS SELECT 1 AS n" for space in (" ", "  "))
    assert not differs_only_in_aliases(one, two, {})
