from __future__ import annotations

from dataclasses import fields

from waterclock.dpl.syntax.clause_table import CLAUSES, DEFINITIONS
from waterclock.flow.declarations import TableDeclaration


def test_each_clause_is_defined_once() -> None:
    words = [clause.word for clause in DEFINITIONS]
    arguments = [argument for clause in DEFINITIONS for argument in clause.argument_names]
    starts = [start for clause in DEFINITIONS for start in clause.first_words]
    assert len(set(words)) == len(words)
    assert len(set(arguments)) == len(arguments)
    assert len(set(starts)) == len(starts)


def test_each_clause_has_a_reader() -> None:
    assert [clause.word for clause in CLAUSES if clause.read is None] == []


def test_fields_are_those_of_a_declaration() -> None:
    known = {each.name for each in fields(TableDeclaration)}
    assert {clause.table_field for clause in DEFINITIONS if clause.table_field} <= known
