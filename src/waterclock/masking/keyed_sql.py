"""The SQL of functions with a key: `hash_keyed`.

The keys are in a temporary view of one row, which the functions read by a subquery without references to the row. So
Spark's plans, pages and event logs name the view, and contain no key. A literal or a variable would print its value.
"""

from __future__ import annotations

from collections.abc import Mapping

KEYS_VIEW = "wc_keys"
"""The view with the column `by_name`: a map from `pii/2026`, and from `pii` for the current key, to derived keys."""

KEY_FIELDS: Mapping[str, str] = {
    "name": "STRING",
    "hash_inner": "BINARY",
    "hash_outer": "BINARY",
}
"""The fields of each key. A key of an HMAC is stored as its two padded blocks."""

_BLOCK = 64  # bytes of a block of SHA-256
_KEY = f"element_at((SELECT by_name FROM {KEYS_VIEW}), concat_ws('/', keys, key))"

HASH_PARAMETERS: Mapping[str, str] = {"value": "STRING", "keys": "STRING", "key": "STRING DEFAULT NULL"}


def blocks_of(key: bytes) -> tuple[bytes, bytes]:
    """Return the inner and the outer block of an HMAC with a key of at most 64 bytes."""
    padded = key.ljust(_BLOCK, b"\0")
    return bytes(each ^ 0x36 for each in padded), bytes(each ^ 0x5C for each in padded)


def hash_sql() -> str:
    """Return the body of `hash_keyed`, an expression over its parameters."""
    return _hmac_sql("hash", "CAST(value AS BINARY)")


def _hmac_sql(purpose: str, message: str) -> str:
    """Return the HMAC-SHA256 of a message in hexadecimal digits; NULL for a message that is NULL."""
    inner = f"sha2(concat({_KEY}.{purpose}_inner, {message}), 256)"
    return f"sha2(concat({_KEY}.{purpose}_outer, unhex({inner})), 256)"
