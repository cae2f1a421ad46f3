"""Names of tables and of their code, as they rest in the ledger: what is renamed is found under the name it has now.

A flow may say that a table had another name before (WAS). Until the run that writes that down, whoever looks reads and
writes the names as the flow has them: each database that is opened so puts them in place, on their way in and out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from waterclock.ledger.store.texts import Text

if TYPE_CHECKING:
    import sqlalchemy as sa

_SAID: WeakKeyDictionary[sa.Dialect, tuple[Mapping[str, str], Mapping[str, str]]] = WeakKeyDictionary()


class Name(Text):
    """A column that holds names of tables, or of their code."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Write a name as it rests."""
        said = _SAID.get(dialect)
        found = value if said is None or value is None else said[0].get(value, value)
        return super().process_bind_param(found, dialect)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Read a name as it is said now."""
        said = _SAID.get(dialect)
        return value if said is None or value is None else said[1].get(value, value)


def say(dialect: sa.Dialect, names: Mapping[str, str]) -> None:
    """Have names at rest said otherwise by whoever uses a dialect; where `names` is empty, they are as they rest.

    `names` are by what rests. A name that another one takes changes places with it.
    """
    if not names:
        _SAID.pop(dialect, None)
        return
    said = {now: was for was, now in names.items() if now not in names} | dict(names)
    _SAID[dialect] = ({now: was for was, now in said.items()}, said)
