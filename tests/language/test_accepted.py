"""What is accepted, and what it compiles to: appendix A of the language, and every form of the first release."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES, HERE
from waterclock.dpl.project import Project, load_project
from waterclock.dpl.query.splice import splice
from waterclock.dpl.syntax.clause_table import CLAUSES
from waterclock.flow.conditions import Term
from waterclock.flow.declarations import Column, Flat, Read, Table
from waterclock.flow.enums import ReadKind, Scope
from waterclock.flow.flats import flats_of
from waterclock.flow.merge_settings import Merge
from waterclock.flow.rule_actions import format_actions

FOLDER = HERE / "accepted"
AS_READ = [clause for clause in CLAUSES if clause.table_field]
SETTINGS = """\
[project]
name = "flights"
[defaults]
zone = "America/New_York"
start = "2013-01-01"
[defaults."marts.*"]
owner = "analytics@example.com"
[vars]
late_minutes = 15
keep = "400 days"
land = "DE"
[pools]
heavy = 2
[env.dev]
connections.landing = { path = "data/new" }
connections.ops = { path = "data/ops.sqlite" }
connections.out = { path = "data/out" }
"""


def put_secret(root: Path) -> None:
    """Write the one secret that an accepted file names."""
    (root / "secrets" / "pii").mkdir(parents=True)
    (root / "secrets" / "pii" / "2026").write_text("0123456789abcdef" * 4, encoding="utf-8")


def project_of(name: str, root: Path) -> Project:
    (root / "flows").mkdir()
    put_secret(root)
    (root / "waterclock.toml").write_text(SETTINGS, encoding="utf-8")
    shutil.copy(FOLDER / name, root / "flows" / name)
    return load_project(root, capabilities=CAPABILITIES)


def lines_of(project: Project) -> Iterator[str]:
    for name, connection in project.flow.connections.items():
        options = dict(connection.options) if name != "project" else "..."
        yield f"connection {name}: {connection.type} {options} {connection.about}"
    for function in project.flow.functions.values():
        yield f"function {function.name}{function.parameters}: {function.returns} = {function.body}"
    for name, view in project.flow.views.items():
        yield f"view {name}: {[c.name for c in view.columns.named]} {view.about}\n    {spliced(view.query.text)}"
    for table in project.flow.tables.values():
        yield "\n".join(parts_of(table))


def spliced(text: str) -> str:
    return text.replace("\n", "\n    ")


def _marks(column: Column) -> Iterator[tuple[str, bool]]:
    yield from (("KEY", column.is_key), ("NOT NULL", column.is_not_null), ("HIDDEN", column.is_hidden))


def references_of(column: Column) -> Iterator[object]:
    if column.references is not None:
        yield column.references
        if column.references.otherwise:
            yield f"reference else {format_actions(column.references.otherwise)}"


def parts_of(table: Table) -> Iterator[str]:
    yield f"{table.kind} {table.name}: {table.type} {table.mode} {table.cadence}"
    said = {
        "start": table.start,
        "merge": table.merge,
        "temporal": table.temporal and repr(table.temporal),
        "retain": table.retain,
        "keep versions": table.keep_versions,
        "closes": table.closes and repr(table.closes),
        "deadline": table.deadline and f"{table.deadline}{' BY WATERMARK' if table.is_by_watermark else ''}",
        "manifest": table.manifest,
        "was": table.was,
        "open windows of": table.open_of,
        "pool": table.pool if table.pool != "default" else None,
        "on restate": table.on_restate if table.on_restate != "recompute" else None,
        "restate at most": table.restate_at_most,
        "where": table.where and f"{table.where.text}: {terms_of(table.where.term)}",
        "in order": table.is_in_label_order or None,
        "about": table.about,
        "reads": ", ".join(str(read) for read in table.reads) or None,
        "from": table.source
        and f"{table.source.unit} {table.source.unit.query or ''} {dict(table.source.unit.options)}",
        "by": table.source and f"{table.source.batching} {table.source.time_column} {table.source.lookback}",
        "changed": table.source and table.source.changed,
        "to": table.destination and f"{table.destination} {dict(table.destination.options)}",
        **{clause.word.lower(): getattr(table, clause.table_field) or None for clause in AS_READ},
    }
    for key, value in said.items():
        if value is not None:
            yield f"  {key}: {value}"
    for column in table.columns.named:
        marks = " ".join(word for word, on in _marks(column) if on)
        rules = [(rule.expression, rule.name, format_actions(rule.actions)) for rule in column.rules]
        ladders = {"type": column.else_of_type, "null": column.else_of_null, "key": column.else_of_key}
        otherwise = [f"{what} else {format_actions(actions)}" for what, actions in ladders.items() if actions]
        of_column = (
            *references_of(column),
            column.comment,
            column.tags,
            rules,
            *otherwise,
            column.key_options,
            column.metadata_field,
        )
        of_column = (*of_column, column.made_as and column.made_as.expression)
        of_column = (*of_column, column.subject and f"subject {column.subject}{' tokens' * column.is_token}")
        notes = [note for note in of_column if note]
        yield f"  column {column.name} {column.type} {marks} {notes or ''}".rstrip()
    yield f"  open: {table.columns.is_open}"
    yield from (f"  left out: {name}" for name in table.columns.left_out)
    yield from (f"  lines {of.name!r}: {format_actions(of.actions)}" for of in [table.columns.unread] if of)
    for rule in (*table.rules, *table.input_rules):
        said_of = f"({rule.scope}{f' of {rule.of}' if rule.of else ''}, {format_actions(rule.actions)})"
        yield f"  rule {rule.name!r}: {rule.expression} {said_of} {rule.variables or ''}".rstrip()
        if rule.comparison is not None:
            yield f"    compares: {' | '.join(map(str, rule.comparison.values))}"
    for measure in table.measures:
        yield f"  measure {measure.name}: {measure.expression}"
    if table.is_profiled:
        yield "  profile"
    for choice in table.choices:
        zone = choice.condition.zone if choice.condition else ""
        yield f"  choice {choice}: reads {', '.join(str(read) for read in choice.reads)} {zone}".rstrip()
    if table.query is not None:
        texts = (splice(query, lambda read: f"<{read}>").text for query in table.query.branches or (table.query,))
        for flat in flats_of(table.query):
            yield from tree_of(flat, "  ")
        yield "    " + "\n    -- by name\n    ".join(map(spliced, texts))


def terms_of(term: Term) -> str:
    inner = " ".join(map(terms_of, term.parts))
    return f"({term.op} {inner})" if term.parts else repr(term.value)


def tree_of(flat: Flat, indent: str) -> Iterator[str]:
    words = ["temporal"] * flat.is_temporal + ["exact"] * flat.is_exact
    yield f"{indent}{flat}: {flat.read} {' '.join(words)}".rstrip()
    for join in flat.joins:
        yield f"{indent}  {join.columns} = {join.parent_columns} role {join.role} at {join.at}"
        yield from tree_of(join.parent, f"{indent}  ")


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.dpl")))
def test_each_accepted_file_compiles_to_its_golden_file(name: str, tmp_path: Path) -> None:
    found = "\n".join(lines_of(project_of(name, tmp_path))) + "\n"
    golden = FOLDER / f"{name}.expected"
    if os.environ.get("UPDATE_CASES"):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


def test_appendix_a_is_the_flow_that_it_describes(tmp_path: Path) -> None:
    flow = project_of("flights.dpl", tmp_path).flow
    assert len(flow.tables) == 14
    assert flow.tables["raw.airlines"].is_snapshot
    assert flow.tables["marts.delays"].reads == (Read("clean.flights"), Read("raw.airlines"))
    assert flow.tables["marts.hours_flown"].reads[0] == Read("marts.hours_flown", ReadKind.PREVIOUS)
    assert flow.tables["marts.hours_flown"].is_in_label_order
    assert flow.tables["ops.plane_use"].merge == Merge(("tailnum",))
    assert flow.tables["clean.flights"].rules[0].scope is Scope.ROW
    assert flow.order.index("raw.flights") < flow.order.index("clean.flights") < flow.order.index("ops.delays")
