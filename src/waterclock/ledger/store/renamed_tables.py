"""Maps stored names of tables and code to current ones, so that a renamed table is found by its new name.

A flow may declare a former name of a table (WAS). Until the run that records the rename, all readers and writers use
the names of the flow: each database opened this way translates names in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from waterclock.ledger.store.texts import Text

if TYPE_CHECKING:
    import sqlalchemy as sa

_TRANSLATIONS: WeakKeyDictionary[sa.Dialect, tuple[Mapping[str, str], Mapping[str, str]]] = WeakKeyDictionary()


class Name(Text):
    """The type of columns with names of tables, or fingerprints of their code."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Convert a name to its stored form."""
        translation = _TRANSLATIONS.get(dialect)
        found = value if translation is None or value is None else translation[0].get(value, value)
        return super().process_bind_param(found, dialect)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Convert a stored name to the current one."""
        translation = _TRANSLATIONS.get(dialect)
        return value if translation is None or value is None else translation[1].get(value, value)


def translate_names(dialect: sa.Dialect, names: Mapping[str, str]) -> None:
    """Translate stored names for all users of a dialect. With an empty `names`, end the translation.

    `names` is keyed by stored name. If a table takes the stored name of another table, the two names are swapped.
    """
    if not names:
        _TRANSLATIONS.pop(dialect, None)
        return
    current_names = {now: was for was, now in names.items() if now not in names} | dict(names)
    _TRANSLATIONS[dialect] = ({now: was for was, now in current_names.items()}, current_names)
