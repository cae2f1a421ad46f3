from __future__ import annotations

import keyword
from pathlib import Path

import pytest

from waterclock.dpl.python import argument_types
from waterclock.dpl.python.decorators import argument_word
from waterclock.dpl.python.statements import load_python
from waterclock.dpl.syntax.clause_table import ARGUMENTS, CLAUSES
from waterclock.dpl.syntax.statements import StatementKind

TYPED = {
    StatementKind.CONNECTION: argument_types.ConnectionArguments,
    StatementKind.FUNCTION: argument_types.FunctionArguments,
    StatementKind.VIEW: argument_types.ViewArguments,
    StatementKind.COLLECT: argument_types.CollectArguments,
    StatementKind.TRANSFORM: argument_types.TransformArguments,
    StatementKind.PUBLISH: argument_types.PublishArguments,
}
LATER = [(clause.word, kind) for clause in CLAUSES if clause.is_later for kind in sorted(clause.statements)]


@pytest.mark.parametrize("kind", TYPED)
def test_type_checkers_are_told_what_is_taken(kind: StatementKind) -> None:
    assert set(TYPED[kind].__annotations__) == set(ARGUMENTS[kind])


@pytest.mark.parametrize("kind", TYPED)
def test_each_clause_of_the_grammar_has_its_argument(kind: StatementKind) -> None:
    words = {argument_word(argument) for argument in ARGUMENTS[kind]}
    assert {clause.word for clause in CLAUSES if kind in clause.statements and not clause.is_later} <= words


@pytest.mark.parametrize(("word", "kind"), LATER)
def test_each_clause_for_later_is_refused_by_its_name(word: str, kind: StatementKind, tmp_path: Path) -> None:
    function = kind.value.lower().split()[-1]
    name = "a" if kind is StatementKind.CONNECTION else "a.b"
    argument = word.lower().replace(" ", "_") + "_" * keyword.iskeyword(word.lower())
    (tmp_path / "a.py").write_text(f'import waterclock as wc\nwc.{function}("{name}", {argument}="1 day")\n')
    _, errors = load_python(tmp_path / "a.py", root=tmp_path, variables={})
    assert f"E208 not available yet: {word}" in [f"{error.code} {error.what}" for error in errors]
