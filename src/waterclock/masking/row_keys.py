"""Builds the SQL of `key_of`, the stable key of a row: a SHA-256 of its attributes in one canonical encoding.

Each attribute is encoded as a letter for its kind, the length of its text in bytes, a colon and the text; NULL is `-`.
So neighbouring texts never run together, and other systems can compute the same key. The parameters have the type
VARIANT, to which Spark converts a value of any simple type, and which knows at each row which type that is.
"""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.masking.row_refusals import UNKEYED, stop_sql

MOST = 12
"""The number of attributes that a call can have at most."""

TAGS: Mapping[str, str] = {
    "STRING": "s",
    "BIGINT": "n",
    "DECIMAL": "n",
    "BOOLEAN": "b",
    "DATE": "d",
    "TIMESTAMP": "t",
    "TIMESTAMP_NTZ": "l",
    "BINARY": "x",
}
"""The letter of each kind of value, by the name of its type in a VARIANT.

There an integer of any width is a BIGINT, and a decimal has no zeros at its end.
"""

EPOCH = "1970-01-01 00:00:00"
"""The time, without a zone, from which microseconds count."""

# Spark's SQL functions have no variable number of parameters; no value of a flow has this type
_ABSENT = "CAST(array(array(array(array(X'')))) AS VARIANT)"
_ABSENT_KIND = "ARRAY<ARRAY<ARRAY<ARRAY<BINARY>>>>"

PARAMETERS: Mapping[str, str] = {
    f"value_{number}": "VARIANT" if number == 1 else f"VARIANT DEFAULT {_ABSENT}" for number in range(1, MOST + 1)
}


def key_sql() -> str:
    """Return the body of `key_of`, an expression over its parameters: a SHA-256 in hexadecimal digits, never NULL.

    The encoding is in a lambda, once for all parameters: Spark analyzes each call of the function.
    """
    is_passed = f"value IS NULL OR schema_of_variant(value) <> '{_ABSENT_KIND}'"
    passed = f"filter(array({', '.join(PARAMETERS)}), value -> {is_passed})"
    return f"sha2(array_join(transform({passed}, value -> {_part_sql('value')}), ''), 256)"


def _part_sql(value: str) -> str:
    """Return the encoding of one attribute."""
    kind, text = f"schema_of_variant({value})", f"CAST({value} AS STRING)"
    texts = {
        "TIMESTAMP": f"CAST(unix_micros(CAST({value} AS TIMESTAMP)) AS STRING)",
        "TIMESTAMP_NTZ": f"CAST(timestampdiff(MICROSECOND, TIMESTAMP_NTZ'{EPOCH}', CAST({value} AS TIMESTAMP_NTZ)) "
        "AS STRING)",
        "BINARY": f"lower(hex(CAST({value} AS BINARY)))",
    }
    branches = " ".join(
        f"WHEN {f'startswith({kind}, {each!r})' if each == 'DECIMAL' else f'{kind} = {each!r}'} "
        f"THEN {_counted_sql(tag, texts.get(each, text))}"
        for each, tag in TAGS.items()
    )
    return f"CASE WHEN {value} IS NULL THEN '-' {branches} ELSE {stop_sql(UNKEYED, kind)} END"


def _counted_sql(tag: str, text: str) -> str:
    return f"concat('{tag}', octet_length({text}), ':', {text})"
