"""Evaluates expressions with aggregates over given rows, including k_anonymity() and l_diversity()."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from waterclock.dpl.query.aggregates import aggregates_of, expand_aggregates
from waterclock.dpl.query.group_measures import NO_GROUPS, GroupMeasure, group_measures_in, with_group_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def evaluate_aggregates(rows: DataFrame, texts: Sequence[str], *, as_texts: bool = False) -> list[Any]:
    """Return the value of each expression over some rows, `as_texts` cast to STRING.

    Cost: one job, which scans the rows if an expression has a plain aggregate. And a group-by for each set of columns
    in k_anonymity() or l_diversity().
    """
    from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

    values = _smallest_groups(rows, group_measures_in(texts))
    plain = [expand_aggregates(with_group_values(text, values)) for text in texts]
    columns = [F.expr(text).cast("string") if as_texts else F.expr(text) for text in plain]
    if values and not any(map(aggregates_of, plain)):
        rows = rows.limit(0)  # only literals are left
    found = rows.agg(*(column.alias(f"a{index}") for index, column in enumerate(columns))).first()
    return [found[f"a{index}"] if found else None for index in range(len(texts))]


def _smallest_groups(rows: DataFrame, measures: Sequence[GroupMeasure]) -> Mapping[GroupMeasure, int]:
    """Return each measure: the smallest group size, or number of distinct values. Cost: a job per set of columns."""
    from pyspark.sql import functions as F  # noqa: N812

    found: dict[GroupMeasure, int] = {}
    for columns in dict.fromkeys(measure.columns for measure in measures):
        own = [measure for measure in measures if measure.columns == columns]
        groups = [F.expr(text).alias(f"g{index}") for index, text in enumerate(columns)]
        sensitive = [F.expr(each.sensitive or "1").alias(f"s{index}") for index, each in enumerate(own)]
        sizes = (
            F.count_distinct(f"s{index}") if each.sensitive else F.count(f"s{index}") for index, each in enumerate(own)
        )
        grouped = rows.select(*groups, *sensitive).groupBy(*(f"g{index}" for index in range(len(columns))))
        counted = grouped.agg(*(size.alias(f"n{index}") for index, size in enumerate(sizes)))
        least = counted.agg(*(F.min(f"n{index}") for index in range(len(own)))).first()
        found |= {each: NO_GROUPS if not least or least[at] is None else least[at] for at, each in enumerate(own)}
    return found
