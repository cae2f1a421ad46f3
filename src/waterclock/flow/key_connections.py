"""The options of connections of type `keys`, which contain secret keys for functions such as `hash_keyed`."""

from __future__ import annotations

from collections.abc import Iterable

KEYS = "keys"
"""The type of connections whose options are secret keys."""

CURRENT = "current"
PREFIX = "key."
KEY_NAME = r"[A-Za-z0-9_-]{1,64}"


def names_of_keys(options: Iterable[str]) -> list[str]:
    """Return the names of the secret keys among a connection's options, such as `2026` for the option `key.2026`."""
    return [name.removeprefix(PREFIX) for name in options if name.startswith(PREFIX)]
