from __future__ import annotations

import pytest

from waterclock.dpl.python import argument_types
from waterclock.dpl.python.decorators import argument_word
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


@pytest.mark.parametrize("kind", TYPED)
def test_decorators_annotate_exactly_the_accepted_arguments(kind: StatementKind) -> None:
    assert set(TYPED[kind].__annotations__) == set(ARGUMENTS[kind])


@pytest.mark.parametrize("kind", TYPED)
def test_each_clause_of_the_grammar_has_its_argument(kind: StatementKind) -> None:
    words = {argument_word(argument) for argument in ARGUMENTS[kind]}
    assert {clause.word for clause in CLAUSES if kind in clause.statements} <= words
