"""Evaluates rules OVER TABLE on the table as it will be after a sealed slice is committed, before it is visible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.engine.batch.commit import call_without_damaged_slices
from waterclock.engine.batch.delivered_state import state_delivered
from waterclock.engine.batch.expectations import evaluate_rules
from waterclock.engine.reads.pin import PinnedRead
from waterclock.engine.run_context import RunContext
from waterclock.flow.checks import list_batch_rules
from waterclock.flow.declarations import Rule, Table
from waterclock.flow.enums import Action, Kind, Mode, Scope
from waterclock.storage.folds.state_after import resulting_state
from waterclock.storage.log.content_as_of import LogStep, find_retained_start
from waterclock.storage.log.delta_log import head, table_exists
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import frame_at, frame_of_slices
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table_findings(
    work: RunContext, spark: SparkSession, table: Table, sealed: Sequence[Manifest], pinned: Sequence[PinnedRead] = ()
) -> Iterator[tuple[Action, str]]:
    """Yield a finding for each rule OVER TABLE that does not hold once these slices are committed in order.

    They are evaluated on the newest state, also if the slice is of an older label. `pinned` are the inputs of the last
    slice. Concurrent commits of other batches are not included. Cost: one job over the columns that the rules name: of
    all labels of an APPEND table, of the state and the slice of a MERGE table, or of all columns of a TEMPORAL one
    (`resulting_state`). For a REPLACE table it scans the slice, which is the table; for a PUBLISH, see
    `delivered_state`.
    """
    rules = [rule for rule in list_batch_rules(table) if rule.scope is Scope.TABLE]
    if not rules:
        return
    found = _evaluate_table_rules(work, spark, table, sealed, pinned, rules)
    what = "the destination" if table.kind is Kind.PUBLISH else "the table"
    for rule in rules:
        if found.get(rule.name) is not True:
            yield rule.action, f"{rule.name}: {what} would not be ({rule.expression})"


def _evaluate_table_rules(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    sealed: Sequence[Manifest],
    pinned: Sequence[PinnedRead],
    rules: Sequence[Rule],
) -> Mapping[str, Any]:
    if table.kind is Kind.PUBLISH:
        return evaluate_rules(state_delivered(work, spark, table, sealed, pinned), rules)
    if not table.is_fold:
        return evaluate_rules(_frame_with_slices(work, spark, table, sealed), rules)
    asked = [rule.expression for rule in rules]

    def ask(steps: Sequence[LogStep], is_whole: bool) -> Mapping[str, Any]:  # noqa: FBT001 - called by `call_without_damaged_slices` alone
        rows = resulting_state(spark, work.lake, table, sealed, steps, asked, is_whole=is_whole)
        return evaluate_rules(rows, rules)

    return call_without_damaged_slices(work, table, {each.label for each in sealed}, ask)


def _frame_with_slices(work: RunContext, spark: SparkSession, table: Table, sealed: Sequence[Manifest]) -> DataFrame:
    folder = work.folder(table)
    if table.mode is not Mode.APPEND:
        return frame_of_slices(spark, folder, sealed[-1:])
    low = _find_kept_start(work, table, sealed)
    new = frame_of_slices(spark, folder, [each for each in sealed if each.label >= low], sealed[-1].schema)
    if not table_exists(folder):
        return new
    kept = frame_at(spark, folder, head(folder), low=low, is_partitioned=table.is_partitioned)
    replaced = [label_of(manifest.label) for manifest in sealed]
    return kept.where(~F.col(TIMELABEL).isin(replaced)).unionByName(new, allowMissingColumns=True)


def _find_kept_start(work: RunContext, table: Table, sealed: Sequence[Manifest]) -> datetime:
    """Return the first window that readers see once the slices are committed: neither dropped nor beyond RETAIN."""
    dropped = work.ledger.keeping.drop_boundary(table.name, by=FOREVER) or BEGINNING
    newest = work.ledger.reads.newest(table.name)
    ends = [*(table.cadence.next(each.label) for each in sealed), *([newest.end] if newest else [])]
    return max(dropped, find_retained_start(table, max(ends)) or BEGINNING)
