"""Makes the random tokens of a project's subjects available to a Spark session's functions, but not to query texts."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from waterclock.flow.declarations import Flow
from waterclock.masking.token_sql import TOKENS_VIEW, TOKENS_VIEW_COLUMNS
from waterclock.spark_sql import sql_text
from waterclock.storage.token_vault import TOKEN, VALUE, read_tokens, vault_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def subjects_with_tokens(flow: Flow) -> list[str]:
    """Return the subjects of columns with TOKENS."""
    columns = (column for table in flow.tables.values() for column in table.columns.named)
    return sorted({column.subject for column in columns if column.is_token and column.subject is not None})


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
