"""Replaces the values of columns with TOKENS by random tokens before a batch writes its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Table
from waterclock.masking.row_refusals import WITHOUT_TOKEN, message_of
from waterclock.spark_sql import quote_name
from waterclock.storage.lake import vault_folder
from waterclock.storage.token_vault import (
    TOKEN,
    VALUE,
    add_tokens,
    read_tokens,
    with_tokens_as_values,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VALUE, _TOKEN = "_waterclock_value", "_waterclock_token"


@contextmanager
def tokenized_rows(attempt: GroupAttempt, rows: DataFrame) -> Iterator[DataFrame]:
    """Yield the rows of a batch with tokens instead of the values of columns with TOKENS.

    Values without a token get one first. A value that is a token stays, as in rows that the table has stored before.
    The rows are cached meanwhile, so that those that are written are those whose values got tokens. Cost: nothing for
    other tables; else the cache, and two joins with the vault of each subject. Raises E467 in a branch.
    """
    columns = _columns_in(attempt.table, rows.columns)
    if not columns:
        yield rows
        return
    _require_no_branch(attempt.work, attempt.where)
    cached = rows.persist()
    try:
        made = cached
        for subject in dict.fromkeys(column.subject or "" for column in columns):
            names = [column.name for column in columns if column.subject == subject]
            made = _replace_values(attempt, cached, made, subject, names)
        yield made
    finally:
        cached.unpersist()


def _columns_in(table: Table, names: Sequence[str]) -> list[Column]:
    """Return the columns with TOKENS that rows have; those of a MERGE table may not have all columns."""
    present = {name.lower() for name in names}
    return [column for column in table.columns.named if column.is_token and column.name.lower() in present]


def _replace_values(
    attempt: GroupAttempt, cached: DataFrame, rows: DataFrame, subject: str, names: Sequence[str]
) -> DataFrame:
    folder = vault_folder(attempt.work.lake.vault_root, subject)
    every = reduce(
        lambda left, right: left.unionByName(right),
        (cached.select(F.col(quote_name(name)).alias(VALUE)) for name in names),
    )
    add_tokens(attempt.spark, folder, every.where(f"{VALUE} IS NOT NULL"), attempt.work.project.name)
    known = with_tokens_as_values(read_tokens(attempt.spark, folder))
    order = rows.columns
    for name in names:
        value, token = F.col(quote_name(name)), F.col(_TOKEN)
        stop = F.raise_error(F.lit(message_of(WITHOUT_TOKEN)))
        found = rows.join(
            known.selectExpr(f"{VALUE} AS {_VALUE}", f"{TOKEN} AS {_TOKEN}"), value == F.col(_VALUE), "left"
        )
        token = F.when(value.isNotNull() & token.isNull(), stop).otherwise(token)
        rows = found.withColumn(name, token).select(*map(quote_name, order))
    return rows


def _require_no_branch(work: RunContext, where: str) -> None:
    if work.project.bases:
        raise WaterclockError(
            "E467",
            f"{where} has tokens, which a branch cannot make",
            where=where,
            why="a token that the branch decides would differ from that of the same value in its base",
            fix="run the table in the base, or leave it out: `waterclock run` with the names of other tables",
        )
