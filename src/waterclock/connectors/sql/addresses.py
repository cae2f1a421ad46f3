"""Compares addresses of databases, and detects special characters in their passwords, to keep them out of errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

_AUTHORITY = re.compile(r"[^/?#]*")
WRITTEN = "in a user or a password, / ? # @ % and blanks are written as %2F %3F %23 %40 %25 and %20"
"""The advice to escape an address. Errors show this and not the parser's message, which may contain a password."""


def has_separator_in_password(url: str) -> bool:
    """Return whether the password of an address contains an unescaped `/`, `?` or `#`."""
    after = url.partition("://")[2]
    authority = _AUTHORITY.match(after)
    return authority is not None and "@" in after[authority.end() :]


def server_of(options: Mapping[str, Any], port: int) -> str | None:
    """Return the server in a connection's `url`: its host, its port unless it is `port`, and the parameters.

    None if it is not known, as for an address that is a secret.
    """
    parts = _split(options)
    return f"{parts.netloc.rpartition('@')[2].lower().removesuffix(f':{port}')}?{parts.query}" if parts else None


def database_in(options: Mapping[str, Any]) -> str:
    """Return the database in a connection's `url`, which is named like the user if there is none."""
    parts = _split(options)
    return (unquote(parts.path.removeprefix("/")) or user_in(options)) if parts else ""


def user_in(options: Mapping[str, Any]) -> str:
    """Return the user in a connection's `url`; empty if there is none."""
    parts = _split(options)
    return unquote(parts.username or "") if parts else ""


def full_database(options: Mapping[str, Any], port: int) -> str | None:
    """Return the server and the database in a connection's `url`. None if they are not known."""
    server = server_of(options, port)
    return f"{server}/{database_in(options)}" if server is not None else None


def _split(options: Mapping[str, Any]) -> SplitResult | None:
    url = options.get("url")
    if not isinstance(url, str) or has_separator_in_password(url):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:  # invalid IPv6 address
        return None
    return parts if parts.netloc else None
