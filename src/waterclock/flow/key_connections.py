"""Option names of connections of type `keys`, which contain the secret keys of functions such as `hash_keyed`."""

from __future__ import annotations

from collections.abc import Iterable

KEYS = "keys"
"""The type of a connection whose options are secret keys of functions."""

CURRENT = "current"
PREFIX = "key."
KEY_NAME = r"[A-Za-z0-9_-]{1,64}"


def names_of_keys(options: Iterable[str]) -> list[str]:
    """Return the names of the secret keys among the names of a connection's options: `key.2026` → `2026`."""
    return [name.removeprefix(PREFIX) for name in options if name.startswith(PREFIX)]
