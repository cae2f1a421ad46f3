"""Commits the winning rows of a MERGE, in one commit under the claim's id: by rewritten files or by Delta's MERGE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from waterclock.faults import fault
from waterclock.spark_sql import quote_name
from waterclock.storage.commit.foreign_changes import refuse_foreign_since
from waterclock.storage.commit.pointers import MergeStart, commit_nothing, prepare_merge
from waterclock.storage.commit.spark_commit import version_of
from waterclock.storage.folds.write_state import (
    DELETED,
    Winners,
    is_small,
    may_rewrite_files,
    rewrite_files,
    rewrite_state,
)
from waterclock.storage.log.delta_log import find_claim, head
from waterclock.storage.log.identity import Identity, app_id
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.spark_settings import require_log_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_ATTEMPTS = 5
_APP_ID = "spark.databricks.delta.write.txnAppId"
_APP_VERSION = "spark.databricks.delta.write.txnVersion"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# MERGE reads its source twice. Sealed files never change, so both reads return the same rows. Only a source that is
# expensive to compute is materialized in between
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"


def commit_winners(
    spark: SparkSession,
    folder: str,
    winners: Winners,
    manifests: Sequence[Manifest],
    identity: Identity,
    merge_start: MergeStart,
) -> int:
    """Commit the winning rows of some slices in one commit. Return the version that carries the claim's id.

    Cost: one Spark job while the table is small. For a larger one, a read of its keys and of the files that change, or
    a Delta MERGE (seconds) if files of the table may not be replaced. The MERGE runs with the session's settings, so
    the session must be the batch's own. Raises ClaimKilledError if the claim was killed first.
    """
    for _ in range(_MAX_ATTEMPTS):
        if not may_rewrite_files(merge_start):
            break
        rewrite = rewrite_state if is_small(merge_start) else rewrite_files
        version = rewrite(spark, folder, winners, identity, merge_start)
        if version is not None:
            return version
        merge_start = prepare_merge(folder, identity, manifests)
        if merge_start.done is not None:
            return merge_start.done
    return _merge_by_delta(spark, folder, winners, identity)


@contextmanager
def set_commit_identity(spark: SparkSession, identity: Identity, *, materialize: str = "none") -> Iterator[None]:
    """Record the claim's id and identity in every Delta commit that the session makes within the block."""
    confs = {
        _APP_ID: app_id(identity.claim),
        _APP_VERSION: "1",
        _METADATA: identity.to_json(),
        _MATERIALIZE: materialize,
    }
    try:
        for key, value in confs.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in confs:
            spark.conf.unset(key)


def _merge_by_delta(spark: SparkSession, folder: str, winners: Winners, identity: Identity) -> int:
    _merge_winners(spark, folder, winners, identity)
    if find_claim(folder, identity.claim, newest=head(folder)).kind == "none":
        return commit_nothing(folder, identity)  # nothing changed, so Delta committed nothing
    return version_of(folder, identity.claim)


def _merge_winners(spark: SparkSession, folder: str, winners: Winners, identity: Identity) -> None:
    require_log_store(spark, folder)
    view = f"_waterclock_merge_{identity.claim}"
    winners.rows.createOrReplaceTempView(view)
    statement = _merge_statement(folder, view, winners)
    try:
        for attempt in range(_MAX_ATTEMPTS):
            fault("merge")
            refuse_foreign_since(folder, identity)
            try:
                with set_commit_identity(spark, identity, materialize="all" if winners.is_expensive else "none"):
                    spark.sql(statement).collect()
                return
            except PySparkException as raised:
                if find_claim(folder, identity.claim, newest=head(folder)).kind != "none":
                    return
                if attempt == _MAX_ATTEMPTS - 1 or not _is_commit_conflict(raised):
                    raise
    finally:
        spark.catalog.dropTempView(view)


def _is_commit_conflict(raised: PySparkException) -> bool:
    """Return whether the MERGE failed because of another commit, such as OPTIMIZE. The MERGE is then tried again."""
    message = f"{raised.getCondition() or ''} {raised}".upper()
    return any(word in message for word in ("CONCURRENT", "METADATA_CHANGED", "PROTOCOL_CHANGED"))


def _merge_statement(folder: str, view: str, winners: Winners) -> str:
    names = [name for name in winners.rows.columns if name != DELETED]
    on = " AND ".join(f"t.{quote_name(key)} <=> s.{quote_name(key)}" for key in winners.keys)
    sets = ", ".join(f"t.{quote_name(name)} = s.{quote_name(name)}" for name in names)
    target, values = (", ".join(f"{side}{quote_name(name)}" for name in names) for side in ("", "s."))
    return (
        f"MERGE INTO delta.{quote_name(folder)} AS t USING {view} AS s ON {on} "
        f"WHEN MATCHED AND s.{DELETED} AND {winners.wins_if} THEN DELETE "
        f"WHEN MATCHED AND NOT s.{DELETED} AND {winners.wins_if} THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({target}) VALUES ({values})"
    )
