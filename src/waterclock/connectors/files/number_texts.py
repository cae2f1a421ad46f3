"""Parses numbers with a decimal comma or thousands separators, as the options of a COLLECT declare them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.flow.capabilities import InvalidOption
from waterclock.spark_sql import sql_text

_BLANKS = " \u00a0\u202f"
_NUMBERS = frozenset(
    "tinyint byte smallint short int integer bigint long float real double decimal dec numeric".split()
)


def is_number(type_text: str) -> bool:
    """Return whether a type is numeric."""
    return type_text.strip().lower().partition("(")[0].strip() in _NUMBERS


def is_sql_format(reading: ReadOptions) -> bool:
    """Return whether the files have numbers as in SQL: with a decimal point, and without a thousands separator."""
    return reading.decimal == "." and not reading.thousands


def normalize_number_sql(text: str, reading: ReadOptions) -> str:
    """Return SQL that rewrites `text` (also SQL), a number, with a decimal point and without thousands separators.

    The result is NULL for a text of another format.
    """
    if is_sql_format(reading):
        return text
    plain = text if not reading.thousands else f"regexp_replace({text}, {sql_text(_sign(reading.thousands))}, '')"
    return (
        f"CASE WHEN {text} RLIKE {sql_text(f'^{_pattern(reading)}$')} "
        f"THEN replace({plain}, {sql_text(reading.decimal)}, '.') END"
    )


def normalize_number(text: str, reading: ReadOptions) -> str | None:
    """Rewrite a number as `normalize_number_sql` does; None for a text of another format."""
    if is_sql_format(reading):
        return text
    if re.fullmatch(_pattern(reading), text, re.ASCII) is None:
        return None
    plain = re.sub(_sign(reading.thousands), "", text) if reading.thousands else text
    return plain.replace(reading.decimal, ".")


def wrong_numbers(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    """Yield errors for the options `decimal` and `thousands`: each must be one character, and they must differ."""
    decimal, thousands = (str(options.get(name) or "") for name in ("decimal", "thousands"))
    for name, sign in (("decimal", decimal), ("thousands", thousands)):
        if sign and (len(sign) > 1 or sign.isalnum() or sign in '+-"\r\n'):
            why = "it must be one character, and no digit, letter, quote, plus or minus"
            yield InvalidOption(
                "E335", name, f"invalid {name} {sign!r}", why, "write it like decimal ',' and thousands '.'"
            )
    if thousands and thousands == (decimal or "."):
        why = f"{thousands!r} cannot separate both the thousands and the fraction"
        yield InvalidOption(
            "E335", "thousands", f"invalid thousands {thousands!r}", why, "set another decimal, such as decimal ','"
        )


def _sign(sign: str) -> str:
    return f"[{_BLANKS}]" if sign in _BLANKS else re.escape(sign)


def _pattern(reading: ReadOptions) -> str:
    grouped = f"[0-9]{{1,3}}(?:{_sign(reading.thousands)}[0-9]{{3}})+|" if reading.thousands else ""
    return f"\\s*[+-]?(?:{grouped}[0-9]*)(?:{re.escape(reading.decimal)}[0-9]*)?(?:[eE][+-]?[0-9]+)?\\s*"
