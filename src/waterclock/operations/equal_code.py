"""Finds tables of a branch whose changed code certainly makes the same rows, and determines the changes of a branch.

Only the statement of a table may differ. Whether anything that it uses differs, too, is decided by fingerprints: with
its former statement, the flow of the branch gives the table the fingerprint that its base has recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from waterclock.batches.former_names import FormerNames
from waterclock.connectors.registry import capabilities
from waterclock.dpl.config.model import read_config
from waterclock.dpl.project import Project, compile_sources
from waterclock.dpl.project_files import read_project_file
from waterclock.dpl.query.equal_queries import bound_tokens
from waterclock.dpl.resolve.fingerprints import canonical
from waterclock.dpl.statement_texts import statement_texts
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.statements import Clause, ParsedQuery, Statement
from waterclock.engine.branching.branch_state import BranchState
from waterclock.engine.branching.table_changes import TableChanges, find_table_changes
from waterclock.flow.declarations import Flow, Value


def find_branch_changes(project: Project, flow: Flow, state: BranchState, former: FormerNames) -> TableChanges:
    """Compare the flow of a branch with the code of its base, without tables whose rows are certainly the same."""
    found = find_table_changes(flow, state, former, project.sandbox)
    equal = find_equal_tables(project, state, found.changed)
    if not equal:
        return found
    unchanged = {name: flow.tables[name].fingerprint for name in equal}
    return find_table_changes(flow, replace(state, codes={**state.codes, **unchanged}), former, project.sandbox)


def find_equal_tables(project: Project, state: BranchState, changed: Collection[str]) -> frozenset[str]:
    """Return those of the changed tables whose statements differ only in names that no row shows.

    Cost: one compilation of the flow if there is a candidate; its Python files are executed again.
    """
    texts = statement_texts(project.flow, project.sources)
    alike = {
        name: state.statements[name]
        for name in changed
        if name in state.statements and differs_only_in_aliases(state.statements[name], texts[name], project.variables)
    }
    sources = dict(project.sources)
    for name in list(alike):
        file = project.flow.tables[name].place.file
        if sources.get(file, "").count(texts[name]) != 1:
            del alike[name]  # several statements share a line
            continue
        sources[file] = sources[file].replace(texts[name], alike[name])
    if not alike:
        return frozenset()
    before = _fingerprints_with(project, sources)
    return frozenset(name for name in alike if before.get(name) == state.codes.get(name))


def differs_only_in_aliases(before: str, after: str, variables: Mapping[str, Value]) -> bool:
    """Return whether two statements are certainly equal except for aliases that no row shows.

    Comments, spacing and the case of keywords are ignored in queries only.
    """
    old, new = (_parse(text, variables) for text in (before, after))
    if old is None or new is None or (old.kind, old.name) != (new.kind, new.name):
        return False
    return len(old.clauses) == len(new.clauses) and all(
        _are_equal(*pair) for pair in zip(old.clauses, new.clauses, strict=True)
    )


def _fingerprints_with(project: Project, sources: Mapping[str, str]) -> dict[str, str]:
    """Map each table to the fingerprint of its code if the files have other texts; empty if these have errors."""
    config, errors = read_config(read_project_file(project.root), env=project.env, root=project.root)
    known = capabilities()
    flow = None if config is None else compile_sources(project.root, config, sources, known, None, errors)
    return {} if errors or flow is None else {name: table.fingerprint for name, table in flow.tables.items()}


def _parse(text: str, variables: Mapping[str, Value]) -> Statement | None:
    statements, errors = parse_text(SourceText("statement", text), variables=variables)
    return statements[0] if len(statements) == 1 and not errors else None


def _are_equal(before: Clause, after: Clause) -> bool:
    if before.word != after.word:
        return False
    if not isinstance(before.value, ParsedQuery) or not isinstance(after.value, ParsedQuery):
        return before.span.text == after.span.text  # spaces count in texts
    old, new = bound_tokens(before.value), bound_tokens(after.value)
    return old is not None and new is not None and canonical(old) == canonical(new)
