"""Asks rules OVER TABLE: of the table as it will be once a sealed slice is committed, before anybody sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.batches.facts import BEGINNING, FOREVER
from waterclock.engine.batch.expectations import answers
from waterclock.engine.workplace import Workplace
from waterclock.flow.checks import all_rules
from waterclock.flow.choices import Action, Mode, Scope
from waterclock.flow.declarations import Table
from waterclock.storage.log.delta_log import head, table_exists
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import frame_at, frame_of_slices
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table_findings(
    work: Workplace, spark: SparkSession, table: Table, sealed: Sequence[Manifest]
) -> Iterator[tuple[Action, str]]:
    """Say which rules of the table do not hold once the last of these slices is committed, after those before it.

    What other batches commit meanwhile is not seen. Cost: one job over the columns that the rules name, of all labels
    of an APPEND table; of a REPLACE table over the slice, which is the table.
    """
    rules = [rule for rule in all_rules(table) if rule.scope is Scope.TABLE]
    if not rules:
        return
    found = answers(_state_after(work, spark, table, sealed), rules)
    for rule in rules:
        if found.get(rule.name) is not True:
            yield rule.action, f"{rule.name}: the table would not be ({rule.expression})"


def _state_after(work: Workplace, spark: SparkSession, table: Table, sealed: Sequence[Manifest]) -> DataFrame:
    folder = work.folder(table)
    new = frame_of_slices(spark, folder, sealed if table.mode is Mode.APPEND else sealed[-1:])
    if table.mode is not Mode.APPEND or not table_exists(folder):
        return new
    low = work.ledger.keeping.dropped_before(table.name, by=FOREVER) or BEGINNING
    kept = frame_at(spark, folder, head(folder), low=low, is_partitioned=table.is_partitioned)
    replaced = [label_of(manifest.label) for manifest in sealed]
    return kept.where(~F.col(TIMELABEL).isin(replaced)).unionByName(new, allowMissingColumns=True)
