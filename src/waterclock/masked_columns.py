"""Masks columns of DataFrames, as the functions of those names do in a flow's SQL."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sql

from waterclock.masking import STEPS


def mask_text(value: Column | str, keep_first: int = 0, keep_last: int = 0) -> Column:
    """Return a text of the same length that cannot be read: X for capitals, n for digits, x for all else.

    `value` is a column or its name. The punctuation of ASCII, blanks and ends of lines stay. So many first and last
    characters as are said stay too, but of a text that has no others: that is masked as a whole. NULL stays NULL, and
    the same text always gives the same. In a flow's SQL it is a function of the same name.
    """
    text = sql.col(value) if isinstance(value, str) else value
    masked = text
    for pattern, letter in STEPS:
        masked = sql.regexp_replace(masked, pattern, letter)
    first, last = max(keep_first, 0), max(keep_last, 0)
    if first + last == 0:
        return masked
    length = sql.length(text)
    between = sql.substring(masked, sql.lit(first + 1), length - sql.lit(first + last))
    kept = sql.concat(sql.left(text, sql.lit(first)), between, sql.right(text, sql.lit(last)))
    return sql.when(length > first + last, kept).otherwise(masked)
