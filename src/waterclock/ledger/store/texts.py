"""How texts rest in the ledger, so that each kind of database holds them and one ledger can be moved to another.

PostgreSQL has no NUL in a text and no NaN in JSON, no database of ours half of a character: each is written as what a
reader knows it by, and nothing that stands beside it is lost.
"""

from __future__ import annotations

import json
import math
from typing import Any

import sqlalchemy as sa

_STRICT = json.JSONEncoder(default=str, allow_nan=False)


def storable(text: str) -> str:
    r"""Return a text that every database holds: a NUL is written `\x00`, half of a character as its number."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


def written_json(value: Any) -> str:
    """Write a value as JSON; what is no number there, NaN and the infinite ones, as text."""
    try:
        return _STRICT.encode(value)
    except ValueError:
        return _STRICT.encode(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


class Text(sa.types.TypeDecorator[str]):
    """A column of texts, compared by their bytes wherever they lie: labels, names and what a query says of them."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Return the database's own type."""
        return dialect.type_descriptor(sa.Text(collation="C") if dialect.name == "postgresql" else sa.Text())

    def process_bind_param(self, value: str | None, _dialect: sa.Dialect) -> str | None:
        """Write a text as it can be stored."""
        return None if value is None else storable(value)
