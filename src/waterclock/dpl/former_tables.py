"""Compiles a former declaration of a table, which a project does not declare any more or declares anew."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from waterclock.dpl.config.model import Config, read_config
from waterclock.dpl.project import Project, read_statements
from waterclock.dpl.project_files import read_project_file
from waterclock.dpl.resolve.compile import compile_flow
from waterclock.dpl.statement_texts import statement_texts
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.statements import Statement, StatementKind
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.declarations import Flow

_TABLES = frozenset({StatementKind.COLLECT, StatementKind.TRANSFORM})
_OTHERS = frozenset({StatementKind.CONNECTION, StatementKind.VIEW, StatementKind.FUNCTION})
_PLACE = re.compile(r"(?P<file>.*):(?P<line>[0-9]+):[0-9]+")


def compile_former_flow(
    project: Project,
    table: str,
    texts: Mapping[str, str],
    capabilities: Mapping[str, Capabilities],
    which: str = "its last declaration",
) -> Flow | str:
    """Return a flow that declares `table` and the tables around it as they were at one of its declarations.

    `texts` are the statements of all tables at that time. Connections, views and functions are those of the project
    now. Statements with errors are left out, if `table` compiles without them. If it does not compile, the reason is
    returned, in which `which` names the declaration. Raises ProjectErrors for an invalid project file.
    """
    config, errors = read_config(read_project_file(project.root), env=project.env, root=project.root)
    if config is None:
        raise ProjectErrors(errors)
    own = _parse(table, texts[table], config)
    if not own:
        return f"{which} is no COLLECT or TRANSFORM in SQL"
    kept = [*own, *_others_at_that_time(project, config, texts, own)]
    while True:
        wrong: list[WaterclockError] = []
        flow = compile_flow(kept, config, root=project.root, capabilities=capabilities, errors=wrong)
        if flow is not None and not wrong:
            return flow if table in flow.tables else "its last statement does not declare it"
        faulty = {id(each) for each in _statements_at(kept, wrong)} - {id(each) for each in own}
        if not faulty:
            first = next((each for each in wrong if table in (each.where or "")), wrong[0])
            return f"{which} has errors: {first.code} {first.what}"
        kept = [each for each in kept if id(each) not in faulty]


def _others_at_that_time(
    project: Project, config: Config, texts: Mapping[str, str], own: Iterable[Statement]
) -> Iterator[Statement]:
    """Yield the other statements. Of two that declare the same table, that of the current flow is preferred."""
    current = list(read_statements(project.root, config, project.sources, []))
    yield from (each for each in current if each.kind in _OTHERS and each.name not in {of.name for of in own})
    now = statement_texts(project.flow, project.sources)
    unchanged = {each.name for each in current if each.kind in _TABLES and texts.get(each.name) == now.get(each.name)}
    seen = {each.name for each in own}
    for each in current:
        if each.name in unchanged - seen:
            yield each
    seen |= unchanged
    for name in sorted(texts.keys() - unchanged):
        for each in _parse(name, texts[name], config):
            if each.name not in seen:
                seen.add(each.name)
                yield each


def _parse(table: str, text: str, config: Config) -> list[Statement]:
    """Return the statements of tables in a text; none if it is not in SQL."""
    statements, errors = parse_text(SourceText(f"the last declaration of {table}", text), variables=config.variables)
    return [] if errors else [each for each in statements if each.kind in _TABLES]


def _statements_at(statements: Iterable[Statement], errors: Iterable[WaterclockError]) -> Iterator[Statement]:
    """Yield the statements in which errors are located."""
    begins: dict[str, list[tuple[int, Statement]]] = {}
    for each in statements:
        begins.setdefault(each.span.place.file, []).append((each.span.place.line, each))
    for error in errors:
        place = _PLACE.fullmatch(error.where or "")
        before = [pair for pair in begins.get(place["file"], ()) if pair[0] <= int(place["line"])] if place else []
        if before:
            yield max(before, key=lambda pair: pair[0])[1]
