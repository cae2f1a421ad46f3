"""Evaluates rules OVER TABLE on the table as it will be after sealed slices are committed, before they are visible."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.engine.batch.commit import call_without_damage, call_without_damaged_slices
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
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Finding = tuple[Action, str]


@dataclass
class TableRuleFindings:
    """Finds the labels of one commit whose slices break a rule OVER TABLE. `sealed` are the slices, oldest first.

    Slices that replace others become visible together, so a rule applies to all of them at once. A rule that they break
    is evaluated after each of them, to find those to blame. New labels follow one after the other, so that none is
    blamed for a later one.

    Rules are evaluated on the newest state, also if a slice is of an older label. `pins` are the inputs of each label.
    Concurrent commits of other batches are not included. Cost: one job for each new label, or one in all if there is
    none; one more for each slice that replaces another, if a rule does not hold. A job reads the columns that the rules
    name: of all labels of an APPEND table, of the state and the slice of a MERGE table, or of all columns of a TEMPORAL
    one (`resulting_state`). For a REPLACE table it scans the slice, which is the table; for a PUBLISH, see
    `delivered_state`.
    """

    work: RunContext
    spark: SparkSession
    table: Table
    sealed: Sequence[Manifest]
    pins: Mapping[datetime, Sequence[PinnedRead]]
    _known: dict[frozenset[datetime], tuple[Finding, ...]] = field(default_factory=dict)

    @cached_property
    def _rules(self) -> list[Rule]:
        return [rule for rule in list_batch_rules(self.table) if rule.scope is Scope.TABLE]

    @cached_property
    def _replaced_labels(self) -> frozenset[datetime]:
        """The labels that have a slice already. Cost: one ledger query for several labels."""
        own = {each.label for each in self.sealed}
        low, high = min(own), self.table.cadence.next(max(own))
        found = self.work.ledger.reads.slices(self.table.name, low, high) if len(own) > 1 else []
        return frozenset(piece.label for piece in found if piece.label in own)

    def for_label(self, label: datetime) -> tuple[Finding, ...]:
        """Return a finding for each rule that does not hold because of the slice of a label."""
        if not self._rules:
            return ()
        replaced = self._replaced_labels
        new = sorted(each.label for each in self.sealed if each.label not in replaced)
        if label not in replaced:
            return self._after({*replaced, *(it for it in new if it <= label)})
        # together with the first new label, to which a row of an older one may have moved
        broken = [it for it in self._after({*replaced, *new[:1]}) if it in self._after(replaced)]
        return tuple(it for it in broken if it in self._after({other for other in replaced if other <= label}))

    def _after(self, labels: Collection[datetime]) -> tuple[Finding, ...]:
        """Return a finding for each rule that does not hold once the slices of these labels are committed."""
        key = frozenset(labels)
        if key not in self._known:
            slices = [each for each in self.sealed if each.label in key]
            pinned = self.pins.get(slices[-1].label, ())
            found = _evaluate_table_rules(self.work, self.spark, self.table, slices, pinned, self._rules)
            what = "the destination" if self.table.kind is Kind.PUBLISH else "the table"
            broken = (rule for rule in self._rules if found.get(rule.name) is not True)
            self._known[key] = tuple((it.action, f"{it.name}: {what} would not be ({it.expression})") for it in broken)
        return self._known[key]


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
    labels = {each.label for each in sealed}
    if not table.is_fold:
        return call_without_damage(
            work,
            table,
            labels,
            lambda lost: evaluate_rules(_frame_with_slices(work, spark, table, sealed, lost.values()), rules),
        )
    asked = [rule.expression for rule in rules]

    def ask(steps: Sequence[LogStep], is_whole: bool) -> Mapping[str, Any]:  # noqa: FBT001 - called by `call_without_damaged_slices` alone
        rows = resulting_state(spark, work.lake, table, sealed, steps, asked, is_whole=is_whole)
        return evaluate_rules(rows, rules)

    return call_without_damaged_slices(work, table, labels, ask)


def _frame_with_slices(
    work: RunContext, spark: SparkSession, table: Table, sealed: Sequence[Manifest], lost: Iterable[datetime]
) -> DataFrame:
    """Return the table with sealed slices, without the rows of the labels that they replace and of `lost` ones."""
    folder = work.folder(table)
    if table.mode is not Mode.APPEND:
        return frame_of_slices(spark, folder, sealed[-1:])
    low = _find_kept_start(work, table, sealed)
    new = frame_of_slices(spark, folder, [each for each in sealed if each.label >= low], sealed[-1].schema)
    if not table_exists(folder):
        return new
    without = {label_of(label) for label in (*lost, *(manifest.label for manifest in sealed))}
    kept = frame_at(spark, folder, head(folder), low=low, without=without, is_partitioned=table.is_partitioned)
    return kept.unionByName(new, allowMissingColumns=True)


def _find_kept_start(work: RunContext, table: Table, sealed: Sequence[Manifest]) -> datetime:
    """Return the first window that readers see once the slices are committed: neither dropped nor beyond RETAIN."""
    dropped = work.ledger.maintenance.drop_boundary(table.name, by=FOREVER) or BEGINNING
    newest = work.ledger.reads.newest(table.name)
    ends = [*(table.cadence.next(each.label) for each in sealed), *([newest.end] if newest else [])]
    return max(dropped, find_retained_start(table, max(ends)) or BEGINNING)
