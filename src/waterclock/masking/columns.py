"""Masks columns of DataFrames, like the SQL functions of the same names."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sql

from waterclock.masking.mask_text import STEPS


def mask_text(value: Column | str, keep_first: int = 0, keep_last: int = 0) -> Column:
    """Mask a text, keeping its length: X for uppercase letters, n for digits, x for other characters.

    ASCII punctuation, spaces, tabs and line breaks stay. NULL stays NULL, and equal texts have equal masks. A flow's
    SQL has a function of the same name.

    Args:
        value: The column or its name.
        keep_first: The number of characters at the beginning that stay, unless the text has no others: then it is
            masked completely.
        keep_last: The number of characters at the end that stay, under the same condition.

    Returns:
        The masked column.

    Example:
        >>> rows = spark.createDataFrame([("Anna-7",)], "name STRING")
        >>> rows.select(wc.mask_text("name", keep_first=1).alias("name")).collect()
        [Row(name='Axxx-n')]
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
