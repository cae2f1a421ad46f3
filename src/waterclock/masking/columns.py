"""Masks columns of DataFrames, like the SQL functions of the same names."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sql

from waterclock.errors import WaterclockError
from waterclock.masking.mask_text import STEPS
from waterclock.masking.row_keys import EPOCH, MOST, TAGS
from waterclock.masking.row_refusals import UNKEYED, message_of


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


def key_of(*values: Column | str) -> Column:
    """Compute the stable key of a row from attributes that never change: a SHA-256 in 64 hexadecimal digits.

    Equal attributes have equal keys, in each engine and version; NULL and the empty text have different ones. Integers
    and decimals of equal value are equal, whatever their width. A flow's SQL has a function of the same name.

    Args:
        *values: 1 to 12 columns or their names. They may be texts, integers, decimals, booleans, dates, timestamps and
            binary values.

    Returns:
        The keys, never NULL. The query fails with E238 at a value of another type, such as a DOUBLE.

    Raises:
        WaterclockError: E238 for no columns or more than 12.

    Example:
        >>> rows = spark.createDataFrame([("Ann", 7)], "name STRING, number INT")
        >>> rows.select(wc.key_of("name", "number").alias("key")).collect()
        [Row(key='5a4f56ad025e7650a345157f79e9e25366b3662b58a71c0f805df093b8f514b4')]
    """
    if not 1 <= len(values) <= MOST:
        raise WaterclockError(
            "E238",
            f"key_of is called with {len(values)} columns",
            why=f"it takes 1 to {MOST}",
            fix="pass a key of some of them as one: key_of(key_of(a, b), c)",
        )
    variants = [(sql.col(value) if isinstance(value, str) else value).cast("variant") for value in values]
    return sql.sha2(sql.array_join(sql.transform(sql.array(*variants), _part_of), ""), 256)


def _part_of(value: Column) -> Column:
    """Return the encoding of one attribute, a VARIANT (see `row_keys`)."""
    kind, text = sql.schema_of_variant(value), value.cast("string")
    since = sql.lit(EPOCH).cast("timestamp_ntz")
    texts = {
        "TIMESTAMP": sql.unix_micros(value.cast("timestamp")).cast("string"),
        "TIMESTAMP_NTZ": sql.timestamp_diff("MICROSECOND", since, value.cast("timestamp_ntz")).cast("string"),
        "BINARY": sql.lower(sql.hex(value.cast("binary"))),
    }
    part = sql.when(value.isNull(), "-")
    for each, tag in TAGS.items():
        found = texts.get(each, text)
        counted = sql.concat(sql.lit(tag), sql.octet_length(found).cast("string"), sql.lit(":"), found)
        part = part.when(kind.startswith("DECIMAL") if each == "DECIMAL" else kind == each, counted)
    stop = sql.raise_error(sql.concat(sql.lit(f"{message_of(UNKEYED)} ["), kind, sql.lit("]")))
    return part.otherwise(stop)
