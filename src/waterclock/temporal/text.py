"""How is a text attribute cleaned and spelt?"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as sql

from waterclock.temporal.columns import require_choice

_FORMATS: Mapping[str, Callable[[Column], Column]] = {
    "upper": sql.upper,
    "lower": sql.lower,
    "initcap": sql.initcap,
    "none": lambda text: text,
}


def format_attribute(value: Column | str, format: str = "none", nullreplacement: str | None = None) -> Column:  # noqa: A002 - the article's name
    """Give the text with single blanks, in one case, and something in place of nothing.

    `value` is a column or its name. Runs of Unicode white space become one blank and go at both ends; a text of which
    nothing is left counts as null; null becomes `nullreplacement`, which is not formatted. `format` is upper, lower,
    initcap or none. By Spark's rules initcap gives `Jean-paul O'neil`, and upper makes two letters of `ß`.

    Raises  E310 for another format
    """
    require_choice(format, tuple(_FORMATS), where="format_attribute")
    text = sql.col(value) if isinstance(value, str) else value
    single = sql.trim(sql.regexp_replace(text, r"[\s\p{Z}]+", " "))
    said = sql.nullif(_FORMATS[format](single), sql.lit(""))
    return said if nullreplacement is None else sql.coalesce(said, sql.lit(nullreplacement))
