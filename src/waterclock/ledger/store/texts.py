"""Stores texts in a form that every kind of database accepts, so that a ledger can be moved between them.

PostgreSQL accepts no NUL in a text and no NaN in JSON, and no supported database accepts an unpaired surrogate. Each of
these is replaced by a readable form, and the text around it is kept.
"""

from __future__ import annotations

import json
import math
from typing import Any

import sqlalchemy as sa

_STRICT = json.JSONEncoder(default=str, allow_nan=False)


def storable(text: str) -> str:
    r"""Return a text that every database can store: NUL is written as `\x00`, an unpaired surrogate as `\udc80`."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


def written_json(value: Any) -> str:
    """Return a value as JSON; non-finite numbers (NaN and the infinities) become text."""
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
    """A column of texts (labels, names and others), compared by their bytes in every database."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Return the database's own type."""
        return dialect.type_descriptor(sa.Text(collation="C") if dialect.name == "postgresql" else sa.Text())

    def process_bind_param(self, value: str | None, _dialect: sa.Dialect) -> str | None:
        """Convert a text to its storable form."""
        return None if value is None else storable(value)
