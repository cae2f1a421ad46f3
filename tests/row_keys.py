"""`key_of` in plain Python, as docs/howto/make-stable-keys.md describes it."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal


def encoded(value: object) -> str:
    """Encode one attribute."""
    if value is None:
        return "-"
    if isinstance(value, bool):  # before int, because a bool is one
        tag, text = "b", str(value).lower()
    elif isinstance(value, int | Decimal):
        tag, text = "n", f"{value:f}" if isinstance(value, Decimal) else str(value)
        if "." in text:
            text = text.rstrip("0").rstrip(".")
        text = "0" if text == "-0" else text
    elif isinstance(value, datetime):
        tag = "l" if value.tzinfo is None else "t"
        epoch = datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else UTC)
        text = str((value - epoch) // timedelta(microseconds=1))
    elif isinstance(value, date):
        tag, text = "d", value.isoformat()
    elif isinstance(value, bytes | bytearray):
        tag, text = "x", value.hex()
    else:
        tag, text = "s", str(value)
    return f"{tag}{len(text.encode())}:{text}"


def key_of(*values: object) -> str:
    """Return the key of some attributes."""
    return hashlib.sha256("".join(map(encoded, values)).encode()).hexdigest()
