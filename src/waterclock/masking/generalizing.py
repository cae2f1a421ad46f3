"""Builds the SQL of `generalize`, which replaces a value by a period, a range or a prefix that contains it."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.masking.row_refusals import NO_RULE, NO_WIDTH, UNKNOWN_PERIOD, stop_sql

PERIODS = ("year", "quarter", "month", "week", "day")
PARAMETERS: Mapping[str, str] = {
    "value": "STRING",
    "to": "STRING DEFAULT NULL",
    "width": "STRING DEFAULT NULL",
    "keep_first": "INT DEFAULT NULL",
}
RULES = ("to", "width", "keep_first")
"""The arguments of which a call has exactly one."""

_PLACES = 18
_NUMBER = f"DECIMAL(37, {_PLACES})"
_WIDTH = r"^(\d{1,15}(\.\d{1,9})?|\.\d{1,9})\z"


def generalize_sql() -> str:
    """Return the body of `generalize`, an expression over its parameters. For a literal rule Spark plans one branch."""
    count = " + ".join(f"CAST({rule} IS NOT NULL AS INT)" for rule in RULES)
    return (
        f"CASE WHEN {count} <> 1 THEN {stop_sql(NO_RULE)} WHEN to IS NOT NULL THEN {_period_sql()} "
        f"WHEN width IS NOT NULL THEN {_range_sql()} ELSE {_beginning_sql()} END"
    )


def _period_sql() -> str:
    day = "CAST(value AS DATE)"
    texts = {
        "year": f"date_format({day}, 'yyyy')",
        "quarter": f"concat(date_format({day}, 'yyyy'), '-Q', quarter({day}))",
        "month": f"date_format({day}, 'yyyy-MM')",
        "week": f"concat(extract(YEAROFWEEK FROM {day}), '-W', lpad(weekofyear({day}), 2, '0'))",
        "day": f"date_format({day}, 'yyyy-MM-dd')",
    }
    branches = " ".join(f"WHEN '{period}' THEN {texts[period]}" for period in PERIODS)
    return f"CASE to {branches} ELSE {stop_sql(UNKNOWN_PERIOD, 'to')} END"


def _range_sql() -> str:
    """Return the SQL of a range such as `30-39`.

    Its bounds have as many decimal places as the width, and it contains the numbers that begin with one of them. The
    arithmetic uses decimals and no division, so no bound is rounded.
    """
    places = "length(split_part(width, '.', 2))"
    number, width = f"CAST(value AS {_NUMBER})", f"CAST(width AS {_NUMBER})"
    low = f"({number} - pmod({number}, {width}))"
    high = f"({low} + {width} - CAST(concat('1e-', {places}) AS {_NUMBER}))"
    texts = (_cut_sql(low, places), _cut_sql(high, places))
    return (
        f"CASE WHEN width RLIKE r'{_WIDTH}' AND {width} > 0 THEN concat({texts[0]}, '-', {texts[1]}) "
        f"ELSE {stop_sql(NO_WIDTH, 'width')} END"
    )


def _cut_sql(number: str, places: str) -> str:
    """Return the SQL of a decimal as a text with `places` decimal places. The digits that are cut off are zeros."""
    text = f"CAST({number} AS STRING)"
    point = f"instr({text}, '.')"
    return f"left({text}, {point} - IF({places} = 0, 1, -{places}))"


def _beginning_sql() -> str:
    kept = "greatest(keep_first, 0)"
    return f"concat(left(value, {kept}), repeat('*', greatest(length(value) - {kept}, 0)))"
