"""The lifecycle of a batch (docs/explain/life-of-a-batch.md): create, claim, make, seal, audit, commit, record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from waterclock.batches.facts import HELD_BACK, RELEASE, BatchStatus
from waterclock.batches.records import WARNINGS, BatchResult, Claim, ClaimRequest, Input, warnings_of
from waterclock.engine.batch.batch_errors import batch_error
from waterclock.engine.batch.claim_record import put_claim_record
from waterclock.engine.batch.commit import commit_group, refuse_foreign
from waterclock.engine.batch.destinations import refuse_lost
from waterclock.engine.batch.expectations import (
    RuleVerdict,
    has_unasked,
    held_back,
    judge,
    left_aside,
    refusal,
    row_measures,
    with_past,
)
from waterclock.engine.batch.input_rules import InputRuleResult, ask_input_rules
from waterclock.engine.batch.late_rows import told_late
from waterclock.engine.batch.make import Bound, make
from waterclock.engine.batch.measuring import Judging, measure_columns
from waterclock.engine.batch.publish import linked_slices
from waterclock.engine.batch.releasing import HeldBatch, collect_past_again, find_held, note_released, seal_held_slice
from waterclock.engine.batch.results import MadeSlices, Notes
from waterclock.engine.batch.sieves import measures_of
from waterclock.engine.batch.table_rules import table_findings
from waterclock.engine.batch.takeover import record_if_committed
from waterclock.engine.collect.change_scans import look_back
from waterclock.engine.collect.linked import pin_link
from waterclock.engine.collect.lookback import filter_changed_slices
from waterclock.engine.collect.positions import owned_by_labels, ranges_of
from waterclock.engine.damage import MENDED_ELSEWHERE, require_log
from waterclock.engine.links import kept_inputs, linked_inputs
from waterclock.engine.progress import GroupReport
from waterclock.engine.reads.pin import pin
from waterclock.engine.reads.sizes import bytes_held, bytes_read, set_shuffle_partitions
from waterclock.engine.spark.errors import to_error
from waterclock.engine.spark.user_functions import register_functions
from waterclock.engine.workplace import Workplace
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow.choices import Kind
from waterclock.flow.declarations import Table
from waterclock.flow.measures import GIVEN_UP
from waterclock.ledger.refusals import ClaimClosed, ClaimRefused
from waterclock.planner.plan import GIVE_UP, Group
from waterclock.storage.commit.creation import create_table
from waterclock.storage.log.open_tables import has_columns
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.row_filter import Sifted
from waterclock.storage.slices.writer import Written, write_slices
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MOST_LOOKS = 5  # after that the batch is left to the runner that was quicker each time


def carry_out(work: Workplace, group: Group, now: datetime) -> GroupReport:
    """Take a group through its lifecycle once. Never raises if the batch fails: the report has the error.

    A claim that was taken is closed at the end, as done, failed or lost. A claim whose outcome cannot be settled now
    stays open: this run settles it before it ends, as a takeover does, or reports that it cannot.
    """
    attempt = _Attempt(work, work.flow.tables[group.table], group, now)
    try:
        attempt.run()
    except ClaimRefused as refused:
        return attempt.report(refused)
    except Exception as raised:  # noqa: BLE001 - any failure of a batch is in its report; the runner continues
        return attempt.report(attempt.close_after(raised))
    finally:
        attempt.let_go()
    return attempt.report(None)


@dataclass(slots=True)
class _Done:
    """The result of a group that was committed."""

    rows: int
    earlier: int
    warnings: tuple[str, ...]


@dataclass
class _Attempt:
    """One attempt at a group: its steps in order, and how it is closed if one of them fails.

    The state that closing needs is stored here; each step passes everything else to the next one.
    """

    work: Workplace
    table: Table
    group: Group
    now: datetime
    bound: Bound | None = None
    claim: Claim | None = None
    may_have_committed: bool = False
    spent: dict[str, float] = field(default_factory=dict)
    begun: float = field(default_factory=time.perf_counter)
    done: _Done | None = None
    made: MadeSlices | None = None
    sifted: Mapping[datetime, Sifted] = field(default_factory=dict)
    asked: InputRuleResult = field(default_factory=InputRuleResult)
    held: HeldBatch | None = None
    kept: dict[datetime, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def spark(self) -> SparkSession:
        """The batch's own session, with the functions that the table's rules call registered."""
        session = self.work.sessions.own()
        self.work.tell_of_spark()
        register_functions(session, self.work.root, self.work.flow, self.table.expressions)
        return session

    @property
    def folder(self) -> str:
        """The folder of the table."""
        return self.work.folder(self.table)

    def run(self) -> None:
        """Take the steps in the order that the commit protocol requires."""
        self.bound = bound = self._bind()
        made = self._create(bound)
        with self._step("claim"):
            claimed, claim = self._take_claim(bound)
        if made is not None and claimed.owned != bound.owned:
            made.notes.close()
            made = None  # its rows are from a range that now belongs to another label
        bound = claimed
        self.work.keep_alive(claim)
        fault("claimed")
        written, notes = self._seal(claim, bound, made)
        fault("sealed")
        with self._step("audit"):
            verdicts = self._audit(claim, written, notes)
        fault("audited")
        put_claim_record(self.folder, claim, self._results(bound, written.manifests, notes, verdicts, version=-1))
        self.may_have_committed = True
        with self._step("commit"):
            if self.table.is_fold and self.table.kind is not Kind.PUBLISH:
                set_shuffle_partitions(self.spark, bytes_held(self.folder))
            version = commit_group(self.work, lambda: self.spark, self.table, claim, written.manifests)
        fault("committed")
        with self._step("record"):
            self.work.ledger.claims.record_done(
                claim, self._results(bound, written.manifests, notes, verdicts, version)
            )
        self.done = _Done(
            sum(manifest.rows for manifest in written.manifests),
            len({manifest.label for manifest in written.manifests} - {batch.label for batch in self.group.batches}),
            tuple(said for verdict in verdicts.values() for said in verdict.warnings),
        )
        if self.held is not None:
            note_released(self.work, self.group, claim, self._describe_release())
        fault("recorded")
        notes.after(self.work)

    def _bind(self) -> Bound:
        """Bind the inputs of every label, and find the done windows that a LOOKBACK reads again."""
        with self._step("pin"):
            pins = pin(self.work.ledger, self.work.lake, self.work.flow, self.group.batches)
            self.bound = bound = Bound(pins, linked=pin_link(self.work, self.table, self.group))
            if self.group.verb == RELEASE:
                self.held = find_held(self.work, self.table, self.group, pins)
        # a failed lookback is a failed attempt at the group's own labels
        with self._step("look" if self.table.source and self.table.source.changed else "pin"):
            owned = ranges_of(self.work, self.table, self.group)
            return replace(bound, look=look_back(self.work, self.table, self.group, lambda: self.spark), owned=owned)

    def _take_claim(self, bound: Bound) -> tuple[Bound, Claim]:
        """Take the claim. If another runner has collected the same changes meanwhile, bind and try again."""
        for _ in range(_MOST_LOOKS):
            try:
                self.claim = self.work.ledger.claims.take(self._request(bound))
            except ClaimRefused as refused:
                if refused.code not in {"E828", "E850"}:
                    raise
                self.bound = bound = self._bind()
            else:
                return bound, self.claim
        self.claim = self.work.ledger.claims.take(self._request(bound))
        return bound, self.claim

    def _make(self, bound: Bound) -> MadeSlices:
        """Return the group's rows, not yet evaluated."""
        with self._step("make"):
            set_shuffle_partitions(self.spark, bytes_read(self.work.lake, self.work.flow, bound.pins.values()))
            self.made = make(self.work, self.spark, self.table, self.group, bound, self.now)
            return self.made

    def _create(self, bound: Bound) -> MadeSlices | None:
        """Create the table before any claim, so that a takeover has a table in which to kill the claim.

        Returns the rows that were made to find its columns, or None if the table already exists.
        """
        if self.table.kind is Kind.PUBLISH:
            refuse_lost(self.work, self.table, self.group)
            return None
        if has_columns(self.folder):
            refuse_foreign(self.work, self.table)
            return None
        require_log(self.work, self.table.name)
        made, is_partitioned = self._make(bound), self.table.is_partitioned
        with self._step("create"):
            create_table(self.folder, made.schema, is_partitioned=is_partitioned, project=self.work.flow.project)
        # late rows are separated again under the claim: from then on no window can be closed before its slice
        return made if self.table.late_rows is None else None

    def _seal(self, claim: Claim, bound: Bound, made: MadeSlices | None) -> tuple[Written, Notes]:
        """Seal the slices: from rows that `_create` made, from rows made now, or from existing slices."""
        if self.held is not None:
            with self._step("seal"):
                collect_past_again(self.work, self.table, self.held)
                shown = seal_held_slice(self.work, self.table, self.held, claim)
                return shown, Notes({manifest.label: manifest.source for manifest in shown.manifests})
        if self.table.kind is Kind.PUBLISH:
            with self._step("seal"):
                linked = linked_slices(self.work, self.table, self.group, bound.pins, claim)
            if linked is not None:
                return linked, Notes({manifest.label: manifest.source for manifest in linked.manifests})
        if self.table.input_rules and self.group.verb != GIVE_UP:
            with self._step("input_rules"):
                pins = {batch.label: bound.pins[batch.label] for batch in self.group.batches}
                self.asked = ask_input_rules(self.work, self.spark, self.table, pins, claim.number)
        made = made or self._make(bound)
        with self._step("seal"):
            written = self._write(claim, made)
            self.asked.clear(self.folder)
        self.sifted = written.sifted
        manifests = filter_changed_slices(written.manifests, bound.again, self.folder if written.sifted else None)
        return Written(manifests, written.measures, written.sifted), made.notes.check_unchanged()

    def _write(self, claim: Claim, made: MadeSlices) -> Written:
        """Write and seal the slices, part by part."""
        manifests: list[Manifest] = []
        measures: dict[datetime, Mapping[str, Any]] = {}
        sifted: dict[datetime, Sifted] = {}
        for part in made.parts:
            at_rest = len(part.labels) > 1 or part.through is not None
            of_rows = [*row_measures(self.table, at_rest=at_rest), *measure_columns(self.table, part.frame.schema)]
            written = write_slices(
                part.frame,
                folder=self.folder,
                claim=claim.number,
                labels=part.labels,
                lake=self.work.lake,
                measures=of_rows,
                merge=self.table.merge if self.table.kind is not Kind.PUBLISH else None,
                code=self.table.fingerprint,
                source=made.notes.source,
                name=self.table.name,
                of_nothing=part.of_nothing,
                through=part.through,
                inputs_aside=self.asked.aside,
            )
            manifests += written.manifests
            measures |= written.measures
            sifted |= written.sifted
        return Written(tuple(manifests), measures, sifted)

    def _audit(self, claim: Claim, written: Written, notes: Notes) -> dict[datetime, RuleVerdict]:
        """Judge each label. Rows that the collect quarantined are reported with the newest label."""
        if self.group.verb == GIVE_UP:
            return dict.fromkeys(claim.request.labels, RuleVerdict((GIVEN_UP,)))
        if self.held is not None:
            return {self.held.manifest.label: RuleVerdict(warnings_of(self.held.result.measures))}
        verdicts: dict[datetime, RuleVerdict] = {}
        judging = Judging(self.work, self.table, claim.request.labels)
        for manifest in sorted(written.manifests, key=lambda each: each.label):
            own, sifted = written.measures[manifest.label], written.sifted.get(manifest.label)
            rows = frame_of_slices(self.spark, self.folder, [manifest]) if has_unasked(self.table, own) else None
            pinned = self.bound.pins.get(manifest.label, ()) if self.bound else ()
            before = [each for each in written.manifests if each.label <= manifest.label]
            of_table = [*self.asked.of(manifest.label).findings]
            of_table += [*table_findings(self.work, self.spark, self.table, before, pinned)]
            if judging.is_needed:
                compared, self.kept[manifest.label] = judging.of(self.spark, self.folder, manifest, own)
                of_table += compared
            verdict = judge(self.spark, self.table, self.folder, manifest, own, rows, sifted=sifted, of_table=of_table)
            where = f"{self.table.name}@{label_of(manifest.label)}"
            if verdict.refusals:
                raise refusal(self.table, where, verdict)
            if manifest.label in notes.holds:
                verdict = replace(verdict, holds=(notes.holds[manifest.label], *verdict.holds))
            verdicts[manifest.label] = replace(verdict, warnings=verdict.warnings + told_late(self.table, manifest))
        if len(self.group.batches) > 1 and (held := [label for label, it in verdicts.items() if it.holds]):
            raise held_back(self.table, self._where(), verdicts[held[0]], held)  # the group is split
        # after all labels are judged: a later release was checked against each rule itself, despite findings of a
        # LOOKBACK
        if (verdict := with_past(verdicts, self.group.batches[0].label)).holds:
            self._keep_held(claim, written, notes, verdict)
            raise held_back(self.table, self._where(), verdict)
        if verdicts and (aside := left_aside(notes.set_aside())):
            newest = verdicts[max(verdicts)]
            verdicts[max(verdicts)] = replace(newest, warnings=(*newest.warnings, *aside))
        return verdicts

    def _keep_held(self, claim: Claim, written: Written, notes: Notes, verdict: RuleVerdict) -> None:
        """Write the claim record of a held slice, to be recorded at its release. Groups are split before."""
        if self.bound is not None and len(self.group.batches) == 1:
            own = [it for it in written.manifests if it.label == self.group.batches[0].label]
            told = dict.fromkeys((it.label for it in own), RuleVerdict((*verdict.warnings, *verdict.holds)))
            results = self._results(self.bound, own, notes, told, version=-1)
            put_claim_record(self.folder, claim, results)

    def _request(self, bound: Bound) -> ClaimRequest:
        settings = self.work.settings
        labels = [*(piece.label for piece in bound.again), *(batch.label for batch in self.group.batches)]
        return ClaimRequest(
            table=self.table.name,
            labels=tuple(sorted(labels)),
            code=self.table.fingerprint if self.held is None else self.held.request.code,
            flow=self.work.flow.fingerprint,
            runner=settings.runner,
            who=settings.who,
            now=self.now,
            lease_seconds=settings.lease,
            target_version=self.work.ledger.reads.table(self.table.name).head_version,
            inputs={label: tuple(read.input for read in reads) for label, reads in bound.pins.items()}
            | self._inputs_elsewhere(bound),
            run=self.work.run,
            restates=self._restates(bound),
            seen=bound.look.seen_claims,
            held={} if self.held is None else {self.held.manifest.label: self.held.manifest.claim},
            owned=owned_by_labels(bound.owned),
            closed={each.label: each.closing.tick for each in self.group.batches if each.closing and each.closing.tick},
            pool=(self.table.pool, self.work.flow.pools[self.table.pool])
            if self.table.pool in self.work.flow.pools
            else None,
        )

    def _restates(self, bound: Bound) -> str | None:
        """Return why done labels are made again without a request and without changed inputs."""
        if self.held is not None:
            return None if self.held.said else "a held batch is released"  # the request may have been withdrawn
        return "late rows within LOOKBACK" if bound.again else None

    def _inputs_elsewhere(self, bound: Bound) -> dict[datetime, tuple[Input, ...]]:
        """Return the inputs of a linked table from another project; the recorded ones if it is made from kept rows."""
        if self.held is not None:
            return {} if bound.pins[self.held.manifest.label] else dict(self.held.request.inputs)
        if self.group.is_made_of_kept:
            return kept_inputs(self.work.ledger, self.table, (batch.label for batch in self.group.batches))
        return linked_inputs(self.table, bound.linked)

    def _results(
        self,
        bound: Bound,
        manifests: Sequence[Manifest],
        notes: Notes,
        verdicts: Mapping[datetime, RuleVerdict],
        version: int,
    ) -> list[BatchResult]:
        ends = {it.label: it.end for it in bound.again} | {it.label: it.window.end for it in self.group.batches}
        stands = {batch.label: batch.stands_from for batch in self.group.batches}
        set_aside = {**notes.set_aside(), **({"left_out": list(notes.left_out)} if notes.left_out else {})}
        return [
            BatchResult(
                label=manifest.label,
                end=ends[manifest.label],
                version=version,
                rows=manifest.rows,
                bytes=manifest.bytes,
                digest=manifest.digest,
                slice_path=manifest.slice_path,
                stands_from=stands.get(manifest.label),
                measures={
                    **set_aside,
                    **self._collect_filter_counts(manifest),
                    **self.asked.of(manifest.label).measures(),
                    **notes.parents_missing(manifest, self.sifted.get(manifest.label)),
                    **self.kept.get(manifest.label, {}),
                    WARNINGS: list(verdicts[manifest.label].warnings),
                },
                timings={step: round(seconds, 4) for step, seconds in self.spent.items()},
                source=notes.source.get(manifest.label, {}),
            )
            for manifest in manifests
        ]

    def _describe_release(self) -> Mapping[str, Any]:
        """Return who released the held batch, and why: the user who requested it, or else the user of this run."""
        own = {"by": self.work.settings.who, "why": self.group.batches[0].reason}
        return self.held.said if self.held is not None and self.held.said else own

    def _collect_filter_counts(self, manifest: Manifest) -> Mapping[str, Any]:
        if self.held is not None:
            return {**self.held.result.measures, "released": self._describe_release()}
        return {} if (found := self.sifted.get(manifest.label)) is None else measures_of(found)

    def close_after(self, raised: Exception) -> WaterclockError | None:
        """Close the claim of a failed attempt. Return None if its data turns out to have been committed."""
        error = batch_error(self.work, self.table, raised, self._where())
        if self.done is not None:
            # already recorded: a later step failed, such as moving files to the archive; the next run repeats it
            self.work.listener.on_message(f"{self.table.name}: {error.what}")
            return None
        claim = self.claim
        if self.group.verb == RELEASE and not error.transient:
            self._refuse_release(error)
        if claim is None and self.group.verb == RELEASE:
            return error  # it stays held
        try:
            claim = claim or self.work.ledger.claims.take(self._request(self.bound or self._bind()))
            if self.may_have_committed and record_if_committed(self.work, self.table, claim):
                return None
            self._give_back(claim, error)
        except (ClaimClosed, ClaimRefused):
            pass  # another runner has taken it over, or has the batch: it closes its own claim
        except Exception as unsettled:  # noqa: BLE001 - it stays open, and is settled by a takeover
            if claim is not None:
                self.work.leave(claim)
                said = to_error(unsettled, where=self._where()).what
                self.work.listener.on_message(
                    f"a claim of {self.table.name} stays open, its outcome is unknown: {said}"
                )
        return error

    def _refuse_release(self, error: WaterclockError) -> None:
        """Record why the batch cannot be released, so that runners do not try it again and again."""
        label = self.group.batches[0].label
        self.work.ledger.decisions.refuse_release(self.table.name, label, who=self.work.settings.who, why=error.what)

    def _give_back(self, claim: Claim, error: WaterclockError) -> None:
        if self.group.verb == RELEASE:
            self.work.ledger.claims.close_lost(claim, why=f"not released: {error.what}")
            return
        if len(self.group.batches) > 1:
            self.work.ledger.claims.close_lost(claim, why=f"tried again in parts: {error.what}")
            return
        # after a transient error the batch is due again at once: the next run continues with it
        may_pass = error.transient or error.code in MENDED_ELSEWHERE
        again = self.work.real_now() if may_pass else None
        status = BatchStatus.HELD if error.code == HELD_BACK else BatchStatus.FAILED
        own = [batch.label for batch in self.group.batches]
        self.work.ledger.claims.record_failed(
            claim, error=error.render(), is_transient=error.transient, status=status, due_again=again, own=own
        )

    def _where(self) -> str:
        return f"{self.table.name}@{label_of(self.group.batches[0].label)}"

    def let_go(self) -> None:
        """Stop renewing the lease, and release the session and the resources of the source."""
        if self.made is not None:
            self.made.notes.close()
        if self.claim is not None:
            self.work.let_go(self.claim)
        if "spark" in self.__dict__:
            self.work.sessions.release(self.spark)

    def report(self, error: WaterclockError | None) -> GroupReport:
        """Return the report of the attempt."""
        return GroupReport(
            self.group,
            None if self.claim is None else self.claim.number,
            rows=self.done.rows if self.done else 0,
            earlier=self.done.earlier if self.done else 0,
            seconds=time.perf_counter() - self.begun,
            timings=self.spent,
            warnings=self.done.warnings if self.done else (),
            error=error,
        )

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self.work.listener.step(self.group, name)
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - begun
