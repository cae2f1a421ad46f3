"""What the addresses of databases share: a password that stands in one is never shown, not even in part."""

from __future__ import annotations

import re

_AUTHORITY = re.compile(r"[^/?#]*")
WRITTEN = "signs of a user or a password such as / ? # @ % and blanks are written as %2F %3F %23 %40 %25 and %20"
"""How such an address is written: what its error says in place of the reader's own words, which show parts of it."""


def is_torn(url: str) -> bool:
    """Tell whether a sign of a password ends what is before the host, so that parts of it stand as port or database."""
    after = url.partition("://")[2]
    authority = _AUTHORITY.match(after)
    return authority is not None and "@" in after[authority.end() :]
