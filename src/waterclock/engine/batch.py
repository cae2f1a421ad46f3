"""The life of a batch: claim, create, make and seal, audit, commit, verify, record (ARCHITECTURE section 5)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.engine.audit import Verdict, judge, refusal, row_measures
from waterclock.engine.collect import explain
from waterclock.engine.commit import commit_group
from waterclock.engine.made import Made
from waterclock.engine.make import make
from waterclock.engine.progress import GroupReport
from waterclock.engine.reads import PinnedRead, pin
from waterclock.engine.takeover import record_if_committed
from waterclock.engine.translate import to_error
from waterclock.engine.workplace import Workplace
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow import Kind, Scope, Table
from waterclock.ledger.ledger import ClaimClosed, ClaimRefused
from waterclock.ledger.records import BatchResult, Claim, ClaimRequest
from waterclock.planner.plan import Group
from waterclock.storage import Manifest, create_table, frame_of_slices, row_error, table_exists, write_slices
from waterclock.timelabel import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Pins = Mapping[datetime, tuple[PinnedRead, ...]]


@dataclass(slots=True)
class Clock:
    """Seconds spent in each step of one group, in the order they came."""

    work: Workplace
    group: Group
    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time one step, and tell the listener of it."""
        self.work.listener.step(self.group, name)
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - begun


def carry_out(work: Workplace, group: Group, now: datetime) -> GroupReport:
    """Take a group through its life, once. Never raises for what befalls the batch: the report holds the error.

    A claim that was taken is closed when this returns: done, failed, or lost where its outcome was settled by a kill.
    """
    table = work.flow.tables[group.table]
    clock = Clock(work, group)
    begun = time.perf_counter()
    claim: Claim | None = None
    may_have_committed = False
    try:
        spark = work.sessions.own()
        with clock.step("pin"):
            pins = {batch.label: pin(work.ledger, work.flow, batch) for batch in group.batches}
        made = None
        if table.kind is not Kind.PUBLISH and not table_exists(work.lake.folder(table.name)):
            # created before any claim, so that whoever takes a claim over has a table to kill it in
            with clock.step("make"):
                made = make(work, spark, table, group, pins, now)
            with clock.step("create"):
                create_table(
                    work.lake.folder(table.name),
                    made.schema,
                    is_partitioned=table.is_partitioned,
                    project=work.flow.project,
                )
        with clock.step("claim"):
            claim = work.ledger.claim(_request(work, table, group, pins, now))
        work.keep_alive(claim)
        fault("claimed")
        with clock.step("make"):
            made = made or make(work, spark, table, group, pins, now)
        with clock.step("seal"):
            written = write_slices(
                made.frame,
                folder=work.lake.folder(table.name),
                claim=claim.number,
                labels=[batch.label for batch in group.batches],
                lake=work.lake,
                measures=row_measures(table),
                merge=table.merge,
                code=table.fingerprint,
                source=made.source,
                name=table.name,
            )
        fault("sealed")
        with clock.step("audit"):
            verdicts = _audit(work, spark, table, written.manifests, written.measures)
        fault("audited")
        may_have_committed = True
        with clock.step("commit"):
            version = commit_group(work, spark, table, claim, group, written.manifests)
        fault("committed")
        with clock.step("record"):
            results = _results(group, made, written.manifests, verdicts, version, clock.spent)
            work.ledger.record_done(claim, results)
        fault("recorded")
        made.after(work)
        return GroupReport(
            group,
            claim.number,
            rows=sum(manifest.rows for manifest in written.manifests),
            seconds=time.perf_counter() - begun,
            timings=clock.spent,
            warnings=tuple(said for verdict in verdicts.values() for said in verdict.warnings),
        )
    except ClaimRefused as error:
        return GroupReport(group, None, seconds=time.perf_counter() - begun, error=error)
    except Exception as raised:  # noqa: BLE001 - whatever befalls a batch is its report, the runner goes on
        error = _error(work, table, group, raised)
        if claim is not None and not _close(work, table, group, claim, error, may_have_committed=may_have_committed):
            error = None
        return GroupReport(
            group,
            None if claim is None else claim.number,
            seconds=time.perf_counter() - begun,
            timings=clock.spent,
            error=error,
        )
    finally:
        if claim is not None:
            work.let_go(claim)


def _close(
    work: Workplace, table: Table, group: Group, claim: Claim, error: WaterclockError, *, may_have_committed: bool
) -> bool:
    """Close a claim whose batch raised; gives False where its data turns out to have been committed."""
    try:
        if may_have_committed and record_if_committed(work, table, claim):
            return False
        if len(group.batches) > 1:
            work.ledger.close_lost(claim, why=f"to be taken one by one: {error.what}")
        else:
            # a passing reason makes the batch due again at once: the next run carries on with it
            again = claim.request.now if error.transient else None
            work.ledger.record_failed(claim, error=error.render(), is_transient=error.transient, due_again=again)
    except ClaimClosed:
        # another runner took the claim over: it has closed it, and makes the batch
        return True
    except Exception as raised:  # noqa: BLE001 - what cannot be settled now stays open, and is settled by a takeover
        said = to_error(raised, where=f"{table.name}@{label_of(group.batches[0].label)}").what
        work.listener.said(f"claim {claim.number} of {table.name} is left open, its outcome unknown: {said}")
        return True
    return True


def _error(work: Workplace, table: Table, group: Group, raised: Exception) -> WaterclockError:
    where = f"{table.name}@{label_of(group.batches[0].label)}"
    said = raised if isinstance(raised, WaterclockError) else row_error(raised, table=table.name)
    return to_error(said or explain(work, table, raised), where=where)


def _request(work: Workplace, table: Table, group: Group, pins: Pins, now: datetime) -> ClaimRequest:
    return ClaimRequest(
        table=table.name,
        labels=tuple(batch.label for batch in group.batches),
        code=table.fingerprint,
        flow=work.flow.fingerprint,
        runner=work.settings.runner,
        who=work.settings.who,
        now=now,
        lease_seconds=work.settings.lease,
        target_version=work.ledger.table(table.name).head_version,
        inputs={label: tuple(read.input for read in reads) for label, reads in pins.items()},
    )


def _audit(
    work: Workplace,
    spark: SparkSession,
    table: Table,
    manifests: tuple[Manifest, ...],
    measures: Mapping[datetime, Mapping[str, object]],
) -> dict[datetime, Verdict]:
    folder = work.lake.folder(table.name)
    has_batch_rules = any(rule.scope is Scope.BATCH for rule in table.rules)
    verdicts: dict[datetime, Verdict] = {}
    for manifest in manifests:
        rows: DataFrame | None = None
        if has_batch_rules:
            rows = frame_of_slices(spark, folder, [manifest], None)
        verdict = judge(spark, table, folder, manifest, measures[manifest.label], rows)
        if verdict.refusals:
            raise refusal(table, f"{table.name}@{label_of(manifest.label)}", verdict)
        verdicts[manifest.label] = verdict
    return verdicts


def _results(
    group: Group,
    made: Made,
    manifests: tuple[Manifest, ...],
    verdicts: Mapping[datetime, Verdict],
    version: int,
    timings: Mapping[str, float],
) -> list[BatchResult]:
    by_label = {manifest.label: manifest for manifest in manifests}
    set_aside = {**made.set_aside(), **({"left_out": list(made.left_out)} if made.left_out else {})}
    return [
        BatchResult(
            label=batch.label,
            end=batch.window.end,
            version=version,
            rows=by_label[batch.label].rows,
            bytes=by_label[batch.label].bytes,
            digest=by_label[batch.label].digest,
            slice_path=by_label[batch.label].slice_path,
            stands_from=batch.stands_from,
            measures={"warnings": list(verdicts[batch.label].warnings), **set_aside},
            timings={step: round(seconds, 4) for step, seconds in timings.items()},
            source=made.source.get(batch.label, {}),
        )
        for batch in group.batches
    ]
