"""Detects unescaped passwords in database addresses, so that no part of a password is ever shown."""

from __future__ import annotations

import re

_AUTHORITY = re.compile(r"[^/?#]*")
WRITTEN = "in a user or a password, / ? # @ % and blanks are written as %2F %3F %23 %40 %25 and %20"
"""The notation of such an address. Errors show this instead of the parser's message, which contains parts of it."""


def has_separator_in_password(url: str) -> bool:
    """Return whether a `/`, `?` or `#` in the password ends it early: its parts would become port or database."""
    after = url.partition("://")[2]
    authority = _AUTHORITY.match(after)
    return authority is not None and "@" in after[authority.end() :]
