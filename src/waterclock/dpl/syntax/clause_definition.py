"""Defines a clause of the language: its words, its statements, its reader, and its argument in Python."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import StatementKind

ALL_STATEMENTS = frozenset(StatementKind)


class ClauseForm(Enum):
    """The forms of a clause's value: `TEXT`, without quotes in Python; `FLAG`, no value; `LIST`, several values."""

    PLAIN = auto()
    TEXT = auto()
    FLAG = auto()
    LIST = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonArgument:
    """An argument of a clause in Python, with an example as it is written there.

    `clause`: the words in the page of arguments, if they are not those of its name. `flag`: the value of a True.
    """

    name: str
    example: str
    clause: str = ""
    flag: object = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseDefinition:
    """One clause: everything that the parser and the Python API know of it.

    - `starts`: the words that it begins with, if they are not its `word`. A positional part begins with none.
    - `read`: the reader of its value. `checks_text`: for a TEXT, the check of an unquoted one in Python.
    - `later`: the statements of which only a later release accepts it.
    - `elsewhere`: the fix for a statement that does not accept it.
    - `table_field`: the field of a table's declaration that its value becomes as it is read; a flag becomes True. A
      value that must be resolved has none: a module of `dpl/resolve` sets its field.
    - `arguments`: its arguments in Python, if it has several, or one of another name than its word.
    - `example`, `clause`: those of its only argument.
    """

    word: str
    statements: frozenset[StatementKind]
    read: Callable[[Cursor], Any] | None = None
    starts: tuple[str, ...] = ()
    is_positional: bool = False
    form: ClauseForm = ClauseForm.PLAIN
    checks_text: Callable[[str, Span], None] | None = None
    is_repeatable: bool = False
    later: frozenset[StatementKind] = frozenset()
    elsewhere: Mapping[StatementKind, str] = field(default_factory=dict)
    table_field: str = ""
    arguments: tuple[PythonArgument, ...] = ()
    example: str = ""
    clause: str = ""

    @property
    def is_later(self) -> bool:
        """True if no statement accepts it in this release."""
        return self.statements <= self.later

    @property
    def first_words(self) -> tuple[tuple[str, ...], ...]:
        """The words that it can begin with; none for a positional part."""
        return () if self.is_positional else tuple(tuple(start.split()) for start in self.starts or (self.word,))

    @property
    def python_arguments(self) -> tuple[PythonArgument, ...]:
        """Its arguments. The name of one is its words joined by `_`, with a trailing `_` if Python reserves it."""
        name = self.word.lower().replace(" ", "_")
        own = f"{name}_" if keyword.iskeyword(name) else name
        return self.arguments or (PythonArgument(name=own, example=self.example, clause=self.clause),)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The names of its arguments in Python."""
        return tuple(argument.name for argument in self.python_arguments)
