"""Erases the rows of persons from stored originals: which values identify a person, and the results by file.

An original is a file that a connection stores and that a batch may read again, such as an archived file or a stored
response. Values are compared as Spark would show them (`CAST(column AS STRING)`), after the conversion to the declared
type: `042` is 42 in a column of integers, and another person in a column of texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from waterclock.flow.declarations import Columns, Unit
from waterclock.spark_sql import column_name, fold_case

if TYPE_CHECKING:
    from waterclock.storage.search.byte_search import ByteSearch

PersonTest = Callable[[str], bool]
"""Returns whether a value, as text, is that of an erased person."""

_INTEGERS = frozenset("tinyint byte smallint short int integer bigint long".split())
_INTEGER = re.compile(r"[\x00-\x20]*([+-]?[0-9]{1,40})(?:\.0*)?[\x00-\x20]*", re.ASCII)
_CHARACTERS = re.compile(r"\s*char\s*\(\s*([0-9]+)\s*\)\s*", re.IGNORECASE)
_MOST_CACHED = 1 << 18


@dataclass(frozen=True, slots=True)
class OriginalErasure:
    """The result for one original.

    `rows` are its rows, and `removed` those of erased persons, which a dry run only counts. `unread` rows cannot be
    parsed, so that nothing is known about their values. `problem`: why the original was not rewritten, although it may
    contain rows of erased persons. `kind` is the noun for the original, such as `file`.
    """

    path: str
    rows: int = 0
    removed: int = 0
    unread: int = 0
    problem: str = ""
    kind: str = "file"


@dataclass(frozen=True, slots=True)
class Subjects:
    """The columns of a table that identify persons, with their declared types, and the test for erased persons.

    `number_text` rewrites a number that is not in SQL's format; it returns None for a text that is no number.
    `redact` replaces values of persons in a text that a user wrote, such as a reason.
    """

    types: Mapping[str, str | None]
    is_person: PersonTest
    number_text: Callable[[str], str | None] | None = None
    redact: Callable[[str], str] = str
    _by_fold: dict[str, str | None] = field(init=False, compare=False)
    _known: dict[tuple[str, type, object], bool] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        folded = {fold_case(name): kind for name, kind in self.types.items()}
        object.__setattr__(self, "_by_fold", folded)

    def column_of(self, source_name: str) -> str | None:
        """Return the folded name of the identifying column that a column of a source becomes; None for others."""
        name = fold_case(column_name(source_name))
        return name if name in self._by_fold else None

    def is_erased(self, column: str, value: object) -> bool:
        """Return whether a value, as the source contains it, is that of an erased person. `column` is a folded name."""
        key = (column, type(value), value)
        try:
            found = self._known.get(key)
        except TypeError:  # a nested value
            return False
        if found is None:
            if len(self._known) >= _MOST_CACHED:
                self._known.clear()
            found = any(map(self.is_person, self._texts_of(value, self._by_fold[column])))
            self._known[key] = found
        return found

    def _texts_of(self, value: object, declared: str | None) -> Iterator[str]:
        text = text_of(value)
        if text is None:
            return
        kind = (declared or "string").strip()
        if kind.lower() in _INTEGERS:
            number = text if self.number_text is None else self.number_text(text)
            found = _INTEGER.fullmatch(number or "")
            if found is not None:
                yield str(int(found[1]))
            return
        yield text
        if (fixed := _CHARACTERS.fullmatch(kind)) is not None and len(text) < int(fixed[1]):
            yield text.ljust(int(fixed[1]))  # Spark pads a CHAR


def text_of(value: object) -> str | None:
    """Return a value of a source as text; None for NULL and for nested values. Invalid bytes become U+FFFD."""
    if value is None or isinstance(value, list | dict | tuple):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | Decimal):
        return str(value).lower() if isinstance(value, bool) else format(value, "f")
    text = str(value)
    # bytes that are not valid in the encoding of a file are surrogates here, and U+FFFD for Spark
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@runtime_checkable
class OriginalEraser(Protocol):
    """A source that stores originals and can erase rows of persons from them."""

    def erase_originals(
        self,
        unit: Unit,
        columns: Columns,
        subjects: Subjects,
        *,
        is_dry_run: bool = False,
        requested: Sequence[str] = (),
    ) -> Iterator[OriginalErasure]:
        """Rewrite the unit's originals without the rows of erased persons, and yield a result for each original.

        Each file is replaced atomically, so a killed erasure leaves each of them old or new, and can be repeated.
        `columns` is the column list of the table. `requested` are the columns of FOR EACH, in their order.
        `is_dry_run`: rows are counted, and nothing is changed.
        """
        ...


@runtime_checkable
class OriginalSearcher(Protocol):
    """A source whose originals are not all files below the storage, and that can search them for values."""

    def search_originals(self, unit: Unit, search: ByteSearch) -> None:
        """Search the unit's originals. Files that were searched before are skipped by `search`."""
        ...
