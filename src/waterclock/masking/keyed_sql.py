"""Builds the SQL of functions with a key: `hash_keyed`, `encrypt`, `decrypt` and `perturb`.

The keys are in a temporary view of one row, which the functions read by a subquery without references to the row. So
Spark's plans, pages and event logs name the view, and contain no key. A literal or a variable would print its value.
"""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.masking.row_refusals import LOST_KEY, NO_KEY, NOT_ENCRYPTED, NOT_POSITIVE, UNREADABLE, stop_sql

KEYS_VIEW = "wc_keys"
"""A view with the column `by_name`, which maps `pii/2026`, and `pii` for the current key, to the derived keys."""

KEY_FIELDS: Mapping[str, str] = {
    "name": "STRING",
    "hash_inner": "BINARY",
    "hash_outer": "BINARY",
    "encrypt": "BINARY",
    "vector_inner": "BINARY",
    "vector_outer": "BINARY",
    "noise_inner": "BINARY",
    "noise_outer": "BINARY",
}
"""The fields of each key. A key of an HMAC is stored as its two padded blocks."""

HASH_PARAMETERS: Mapping[str, str] = {"value": "STRING", "keys": "STRING", "key": "STRING DEFAULT NULL"}
ENCRYPT_PARAMETERS: Mapping[str, str] = {
    "value": "STRING",
    "keys": "STRING",
    "context": "STRING DEFAULT NULL",
    "key": "STRING DEFAULT NULL",
}
DECRYPT_PARAMETERS: Mapping[str, str] = {"value": "STRING", "keys": "STRING", "context": "STRING DEFAULT NULL"}
PERTURB_PARAMETERS: Mapping[str, str] = {
    "value": "DOUBLE",
    "scale": "DOUBLE",
    "of": "STRING",
    "keys": "STRING",
    "key": "STRING DEFAULT NULL",
}

_BLOCK = 64  # bytes of a block of SHA-256
_ALL_KEYS = f"(SELECT by_name FROM {KEYS_VIEW})"
_KEY = f"coalesce(element_at({_ALL_KEYS}, concat_ws('/', keys, key)), {stop_sql(NO_KEY)})"
# the version of the format, the name of the key, and in base64: vector, encrypted bytes and tag
_FORMAT = r"^wc1:[A-Za-z0-9_-]{1,64}:[A-Za-z0-9+/]+={0,2}\z"
_KEY_OF_TEXT = "split_part(value, ':', 2)"
_BOUND = "CAST(concat('wc1/', keys, '/', coalesce(context, '')) AS BINARY)"
"""The additional authenticated data of an encrypted text: another connection or context cannot decrypt it."""

_DIGITS = 13  # hexadecimal digits that a DOUBLE represents exactly: 52 bits


def blocks_of(key: bytes) -> tuple[bytes, bytes]:
    """Return the inner and the outer block of an HMAC with a key of at most 64 bytes."""
    padded = key.ljust(_BLOCK, b"\0")
    return bytes(each ^ 0x36 for each in padded), bytes(each ^ 0x5C for each in padded)


def hash_sql() -> str:
    """Return the body of `hash_keyed`, an expression over its parameters: HMAC-SHA256 in hexadecimal digits."""
    return _hmac_sql("hash", "CAST(value AS BINARY)")


def encrypt_sql() -> str:
    """Return the body of `encrypt`: AES-256-GCM with an initialization vector that is computed from context and value.

    With a random vector the result would differ each time a batch is repeated.
    """
    vector = _hmac_sql("vector", "concat(unhex(sha2(coalesce(context, ''), 256)), CAST(value AS BINARY))")
    made = f"aes_encrypt(CAST(value AS BINARY), {_KEY}.encrypt, 'GCM', 'DEFAULT', left(unhex({vector}), 12), {_BOUND})"
    return rf"concat('wc1:', {_KEY}.name, ':', translate(base64({made}), '\r\n', ''))"


def decrypt_sql() -> str:
    """Return the body of `decrypt`. The query fails at a text that was changed, or whose key is missing."""
    key = f"element_at({_ALL_KEYS}, concat_ws('/', keys, {_KEY_OF_TEXT}))"
    encrypted = "try_to_binary(split_part(value, ':', 3), 'base64')"
    made = f"try_aes_decrypt({encrypted}, {key}.encrypt, 'GCM', 'DEFAULT', {_BOUND})"
    return (
        f"CASE WHEN value IS NULL THEN NULL WHEN NOT value RLIKE r'{_FORMAT}' THEN {stop_sql(NOT_ENCRYPTED)} "
        f"WHEN {key} IS NULL THEN {stop_sql(LOST_KEY, _KEY_OF_TEXT)} "
        f"ELSE coalesce(CAST({made} AS STRING), {stop_sql(UNREADABLE)}) END"
    )


def perturb_sql() -> str:
    """Return the body of `perturb`: noise of a Laplace distribution, drawn from the keyed hash of `of`.

    The first digits of the hash make a number between 0 and 1, whose logarithm is the noise; the next one its sign.
    """
    drawn = _hmac_sql("noise", "CAST(of AS BINARY)")
    share = f"(CAST(conv(left({drawn}, {_DIGITS}), 16, 10) AS BIGINT) + 0.5D) / {16**_DIGITS}D"
    sign = f"CASE WHEN substring({drawn}, {_DIGITS + 1}, 1) < '8' THEN 1D ELSE -1D END"
    is_valid = "scale > 0 AND scale < CAST('Infinity' AS DOUBLE)"
    return (
        f"CASE WHEN value IS NULL OR scale IS NULL OR of IS NULL THEN NULL "
        f"WHEN {is_valid} THEN value + scale * {sign} * ln({share}) "
        f"ELSE {stop_sql(NOT_POSITIVE, 'CAST(scale AS STRING)')} END"
    )


def _hmac_sql(purpose: str, message: str) -> str:
    """Return the HMAC-SHA256 of a message in hexadecimal digits; NULL for a message that is NULL."""
    inner = f"sha2(concat({_KEY}.{purpose}_inner, {message}), 256)"
    return f"sha2(concat({_KEY}.{purpose}_outer, unhex({inner})), 256)"
