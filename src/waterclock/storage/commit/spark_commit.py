"""Writes sealed slices to a table by Spark, for commits that cannot just refer to the slices' existing files.

Commits that only refer to existing files, which are most, are in `pointers`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.errors import WaterclockError
from waterclock.spark_sql import quote_name
from waterclock.storage.commit.foreign_changes import refuse_foreign_since
from waterclock.storage.commit.row_order import recorded_sort_columns
from waterclock.storage.log.delta_log import find_claim, find_commit, head
from waterclock.storage.log.identity import Identity, app_id
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.schema_types import fields_of, widen_schema
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.row_order import sort_rows
from waterclock.storage.slices.type_checks import check_files
from waterclock.storage.spark_settings import require_log_store
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

_MAX_ATTEMPTS = 5


def commit_by_spark(
    spark: SparkSession, folder: str, identity: Identity, manifests: Sequence[Manifest], *, mode: str
) -> int:
    """Write the rows of sealed slices into the table by Spark, in place of the rows of their labels.

    With mode 'replace' they replace all rows. Return the version that carries the claim's id, also if it was committed
    before. Cost: a read of the slices and a Delta write, about a second. It is needed only if `commit_slices` raises
    NeedsSpark.

    Raises ClaimKilledError if the claim was killed first, E633 if Spark cannot commit to the store, and E751 if another
    writer changed the table after the version that the batch knew.
    """
    require_log_store(spark, folder)
    refuse_foreign_since(folder, identity)
    with open_table(folder) as table:
        sort_by, partition_columns = recorded_sort_columns(table), table.partition_columns
    known = json.dumps(json.loads(spark.read.format("delta").load(folder).schema.json()))
    wide = known
    for manifest in manifests:
        wide = widen_schema(wide, manifest.schema) or wide
    for manifest in manifests:
        check_files(manifest, wide)
    writer = (
        sort_rows(_read_slices(spark, folder, manifests, wide), sort_by, folders=partition_columns)
        .write.format("delta")
        .mode("overwrite")
        .option("txnAppId", app_id(identity.claim))
        .option("txnVersion", 1)
        .option("userMetadata", identity.to_json())
    )
    if wide != known:
        writer = writer.option("mergeSchema", "true")
    if mode != "replace":
        labels = ", ".join(f"'{label_of(manifest.label)}'" for manifest in manifests)
        writer = writer.option("replaceWhere", f"{TIMELABEL} IN ({labels})")
    _save(writer, folder, identity.claim)
    return version_of(folder, identity.claim)


def _save(writer: DataFrameWriter, folder: str, claim: int) -> None:
    """Write the rows to Delta. Retry if another commit came first, such as OPTIMIZE or the kill of another claim."""
    for attempt in range(_MAX_ATTEMPTS):
        try:
            writer.save(folder)
        except Exception as raised:
            # PySpark has no exception class for Delta's conflicts: they arrive as Java exceptions
            is_race = "CONCURRENT" in str(raised).upper()
            if not is_race or attempt == _MAX_ATTEMPTS - 1:
                raise
            if find_claim(folder, claim, newest=head(folder)).kind != "none":
                return
        else:
            return


def version_of(folder: str, claim: int) -> int:
    """Return the version that Spark committed under a claim, now or earlier. Spark skips an id that was used before.

    Raises ClaimKilledError if the claim was killed, and E632 if the log has no commit of it.
    """
    version = find_commit(folder, claim)
    if version is None:
        raise WaterclockError(
            "E632",
            f"the log has no commit of claim {claim}, although Spark reported success",
            where=folder,
            transient=True,
        )
    return version


def _read_slices(spark: SparkSession, folder: str, manifests: Sequence[Manifest], schema: str) -> DataFrame:
    rows = frame_of_slices(spark, folder, manifests, schema)
    return rows.select(*(F.col(quote_name(name)) for name in fields_of(schema)))
