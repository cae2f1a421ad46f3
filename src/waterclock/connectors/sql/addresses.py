"""Detects unescaped special characters in the password of a database address, to keep it out of error messages."""

from __future__ import annotations

import re

_AUTHORITY = re.compile(r"[^/?#]*")
WRITTEN = "in a user or a password, / ? # @ % and blanks are written as %2F %3F %23 %40 %25 and %20"
"""The advice to escape an address. Errors show this and not the parser's message, which may contain a password."""


def has_separator_in_password(url: str) -> bool:
    """Return whether the password of an address contains an unescaped `/`, `?` or `#`."""
    after = url.partition("://")[2]
    authority = _AUTHORITY.match(after)
    return authority is not None and "@" in after[authority.end() :]
