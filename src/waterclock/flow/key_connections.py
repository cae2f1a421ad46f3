"""Option names of connections of type `keys`, which contain the keys of functions such as `hash_keyed`."""

from __future__ import annotations

from collections.abc import Iterable

KEYS = "keys"
"""The type of a connection whose options are the keys of functions."""

CURRENT = "current"
PREFIX = "key."
KEY_NAME = r"[A-Za-z0-9_-]{1,64}"


def names_of_keys(options: Iterable[str]) -> list[str]:
    """Return the names of the keys in the options of a connection: `key.2026` → 2026."""
    return [name.removeprefix(PREFIX) for name in options if name.startswith(PREFIX)]
