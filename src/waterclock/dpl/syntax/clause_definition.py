"""Defines the class that describes a clause of DPL: its words, statements, parser function and Python arguments."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import StatementKind


class ClauseForm(Enum):
    """The form of a clause's value. TEXT: a string, without quotes in Python. FLAG: no value. LIST: several values."""

    PLAIN = auto()
    TEXT = auto()
    FLAG = auto()
    LIST = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonArgument:
    """An argument of a clause in Python, with an example of its value.

    `clause`: the words of the clause for the reference page, if they do not follow from the name. `flag`: the clause's
    value if the argument is True.
    """

    name: str
    example: str
    clause: str = ""
    flag: object = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseDefinition:
    """The definition of a clause, for the parser, the Python API and the reference pages.

    - `starts`: the words with which the clause begins, if they differ from `word`.
    - `is_positional`: the clause has a fixed place in the statement, as FROM and OPTIONS have.
    - `read`: the function that parses its value; None for RETURN, AS and others that the parser reads itself.
    - `reads`: functions for the statements with another syntax of it.
    - `checks_text`: the function that checks a TEXT that is passed as a string in Python.
    - `elsewhere`: maps statements that do not accept it to the fix that their error suggests.
    - `flag_in`: the statements in which the clause has no value, and its Python argument is True.
    - `table_field`: the field of `TableDeclaration` that gets its value unchanged; a flag becomes True. Empty if a
      module of `dpl/resolve` computes the field from the value.
    - `arguments`: its Python arguments, if there are several, or if the only one is not named like its word.
    - `example`, `clause`: an example value and the words of the clause, if it has only one Python argument.
    """

    word: str
    statements: frozenset[StatementKind]
    read: Callable[[Cursor], Any] | None = None
    reads: Mapping[StatementKind, Callable[[Cursor], Any]] = field(default_factory=dict)
    starts: tuple[str, ...] = ()
    is_positional: bool = False
    form: ClauseForm = ClauseForm.PLAIN
    checks_text: Callable[[str, Span], None] | None = None
    is_repeatable: bool = False
    elsewhere: Mapping[StatementKind, str] = field(default_factory=dict)
    flag_in: frozenset[StatementKind] = frozenset()
    table_field: str = ""
    arguments: tuple[PythonArgument, ...] = ()
    example: str = ""
    clause: str = ""

    @property
    def first_words(self) -> tuple[tuple[str, ...], ...]:
        """The word sequences with which the clause can begin; empty for a positional clause."""
        return () if self.is_positional else tuple(tuple(start.split()) for start in self.starts or (self.word,))

    @property
    def python_arguments(self) -> tuple[PythonArgument, ...]:
        """The clause's Python arguments. The default is one: its words joined by `_`, with a final `_` for keywords."""
        name = self.word.lower().replace(" ", "_")
        own = f"{name}_" if keyword.iskeyword(name) else name
        return self.arguments or (PythonArgument(name=own, example=self.example, clause=self.clause),)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The names of the clause's Python arguments."""
        return tuple(argument.name for argument in self.python_arguments)
