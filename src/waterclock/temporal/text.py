"""Cleans and formats a text column."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sql

from waterclock.temporal.columns import require_choice
from waterclock.temporal.text_formats import AS_IT_IS, BLANKS, FORMATS


def format_attribute(value: Column | str, format: str = AS_IT_IS, nullreplacement: str | None = None) -> Column:  # noqa: A002 - the name users know
    """Return a text with single blanks, in one case, and with a replacement for null.

    `value` is a column or its name. Each run of Unicode white space becomes one blank, and is removed at both ends. A
    text that is then empty counts as null. null becomes `nullreplacement`, which is not formatted. `format` is upper,
    lower, initcap or none. By Spark's rules initcap gives `Jean-paul O'neil`, and upper converts `ß` to two letters. A
    flow's SQL has a function of the same name. Raises E310 for another format.
    """
    require_choice(format, FORMATS, where="format_attribute")
    text = sql.col(value) if isinstance(value, str) else value
    single = sql.trim(sql.regexp_replace(text, BLANKS, " "))
    spelt: Column = single if format == AS_IT_IS else getattr(sql, format)(single)
    cleaned = sql.nullif(spelt, sql.lit(""))
    return cleaned if nullreplacement is None else sql.coalesce(cleaned, sql.lit(nullreplacement))
