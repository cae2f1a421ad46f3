"""Makes the random tokens of a project's subjects available to a Spark session's functions, but not to query texts."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from waterclock.flow.declarations import Flow, Table
from waterclock.masking.token_sql import TOKENS_VIEW, TOKENS_VIEW_COLUMNS
from waterclock.spark_sql import quote_name, sql_text
from waterclock.storage.lake import Lake, vault_folder
from waterclock.storage.token_vault import TOKEN, VALUE, read_tokens

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VALUE, _TOKEN = "_waterclock_value", "_waterclock_token"


def subjects_with_tokens(flow: Flow) -> list[str]:
    """Return the subjects of columns with TOKENS."""
    columns = (column for table in flow.tables.values() for column in table.columns.named)
    return sorted({column.subject for column in columns if column.is_token and column.subject is not None})


def stored_rows_with_values(spark: SparkSession, lake: Lake, table: Table, rows: DataFrame) -> DataFrame:
    """Return stored rows of a table with the persons' values instead of tokens, to compare them with source rows.

    A value that is no token stays, as in rows from before TOKENS. Cost: nothing for other tables; else a join with the
    vault for each column with TOKENS. Starts no job.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

    there = {name.lower() for name in rows.columns}
    for column in table.columns.named:
        if column.is_token and column.subject is not None and column.name.lower() in there:
            known = read_tokens(spark, vault_folder(lake.vault_root, column.subject))
            known = known.selectExpr(f"{TOKEN} AS {_TOKEN}", f"{VALUE} AS {_VALUE}")
            name, order = quote_name(column.name), rows.columns
            joined = rows.join(known, F.col(name) == F.col(_TOKEN), "left")
            rows = joined.withColumn(column.name, F.expr(f"coalesce({_VALUE}, {name})")).select(*map(quote_name, order))
    return rows


def add_tokens_view(spark: SparkSession, storage: str, flow: Flow) -> None:
    """Create the temporary view with the tokens of all subjects, which `detokenize` reads. Starts no job."""
    names = list(TOKENS_VIEW_COLUMNS)
    frames = [
        read_tokens(spark, vault_folder(storage, subject)).selectExpr(
            f"{sql_text(subject)} AS {names[0]}", f"{TOKEN} AS {names[1]}", f"{VALUE} AS {names[2]}"
        )
        for subject in subjects_with_tokens(flow)
    ]
    none = spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in TOKENS_VIEW_COLUMNS.items()))
    reduce(lambda left, right: left.unionByName(right), frames or [none]).createOrReplaceTempView(TOKENS_VIEW)
