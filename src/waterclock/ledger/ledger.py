"""The ledger as the rest of the project uses it: one object over one database, safe to share between threads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self, overload

from waterclock.batches.audit_trail import Audit, Cell, Link, Run
from waterclock.batches.facts import BEGINNING, FOREVER, BatchStatus, History, LedgerSnapshot
from waterclock.batches.records import (
    BatchResult,
    Claim,
    ClaimRequest,
    Committed,
    Input,
    Pin,
    Recorded,
    Slice,
    TableRecord,
)
from waterclock.flow.declarations import Flow
from waterclock.ledger.maintenance import Keeping
from waterclock.ledger.read import changes_since, current, provenance, status
from waterclock.ledger.read.snapshot import NOBODY, Asking, snapshot
from waterclock.ledger.store.database import Clock, Database, open_database
from waterclock.ledger.write import applying, claim_endings, claims, completion, decisions, runs
from waterclock.ledger.write.applying import Applied
from waterclock.timelabel.window import Window


class Ledger:
    """The durable record of a project. Every method is one transaction, and none keeps one open.

    Methods raise E415 (transient) where another process holds the database's lock, E416 where the database fails.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @overload
    @classmethod
    def open(cls, url: str, *, create: Literal[True] = True, clock: Clock | None = None) -> Ledger: ...
    @overload
    @classmethod
    def open(cls, url: str, *, create: bool, clock: Clock | None = None) -> Ledger | None: ...
    @classmethod
    def open(cls, url: str, *, create: bool = True, clock: Clock | None = None) -> Ledger | None:
        """Open the ledger at a SQLAlchemy URL (`sqlite:///path`, `sqlite://` in memory), of the newest schema.

        Without `create`, a ledger that does not exist gives None and leaves no trace. `clock` is for tests.
        Raises  E401 for a database that is no ledger, E402 for one of newer code, E403 for an unknown kind of URL,
                E422 for a damaged file
        """
        database = open_database(url, create=create, clock=clock)
        return None if database is None else cls(database)

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def now(self) -> datetime:
        """Return the ledger's real clock, which leases and event times go by."""
        return self._database.clock()

    def sequence(self) -> int:
        """Return a number that rises with everything written: snapshots of the same number are the same."""
        return self._database.sequence()

    # what is declared

    def apply(self, flow: Flow, *, who: str, now: datetime, runner: str) -> Applied:
        """See `applying.apply`."""
        return applying.apply(self._database, flow, who=who, now=now, runner=runner)

    def applied(self) -> Applied | None:
        """See `applying.applied`."""
        return applying.applied(self._database)

    def set_starts(self, starts: Mapping[str, datetime], *, who: str) -> None:
        """See `applying.set_starts`."""
        applying.set_starts(self._database, starts, who=who)

    # what is done

    def claim(self, request: ClaimRequest) -> Claim:
        """See `claims.claim`."""
        return claims.claim(self._database, request)

    def renew(self, claim: Claim) -> Claim:
        """See `claim_endings.renew`."""
        return claim_endings.renew(self._database, claim)

    def open_claims(self) -> list[Claim]:
        """See `claims.open_claims`."""
        return claims.open_claims(self._database)

    def expired(self, now_real: datetime | None = None) -> list[Claim]:
        """Return the open claims whose lease has run out by the real clock; each is to be killed, then settled."""
        at = self.now() if now_real is None else now_real
        return [claim for claim in self.open_claims() if claim.lease_until < at]

    def close_lost(self, claim: Claim, why: str, *, who: str | None = None) -> None:
        """See `claim_endings.close_lost`."""
        claim_endings.close_lost(self._database, claim, why, who=who or claim.request.who)

    def record_done(self, claim: Claim, results: Sequence[BatchResult]) -> Recorded:
        """See `completion.record_done`."""
        return completion.record_done(self._database, claim, results)

    def record_failed(
        self,
        claim: Claim,
        *,
        error: str,
        is_transient: bool,
        status: BatchStatus = BatchStatus.FAILED,
        due_again: datetime | None = None,
    ) -> None:
        """See `claim_endings.record_failed`."""
        claim_endings.record_failed(
            self._database, claim, error=error, is_transient=is_transient, status=status, due_again=due_again
        )

    # what people decide

    def record_skipped(self, table: str, windows: Sequence[Window], *, who: str, why: str) -> None:
        """See `decisions.record_skipped`."""
        decisions.record_skipped(self._database, table, windows, who=who, why=why)

    def retry(self, table: str, labels: Collection[datetime], *, who: str) -> tuple[datetime, ...]:
        """See `decisions.retry`."""
        return decisions.retry(self._database, table, labels, who=who)

    def request_restate(self, table: str, labels: Collection[datetime], verb: str, *, who: str) -> tuple[datetime, ...]:
        """See `decisions.request_restate`."""
        return decisions.request_restate(self._database, table, labels, verb, who=who)

    def withdraw_restate(self, table: str, labels: Collection[datetime], *, who: str) -> tuple[datetime, ...]:
        """See `decisions.withdraw_restate`."""
        return decisions.withdraw_restate(self._database, table, labels, who=who)

    def end_following(self, table: str, labels: Collection[datetime], *, who: str) -> None:
        """See `decisions.end_following`."""
        decisions.end_following(self._database, table, labels, who=who)

    # what readers are bound to

    def snapshot(self, flow: Flow, *, tables: Collection[str] | None = None, asking: Asking = NOBODY) -> LedgerSnapshot:
        """See `snapshot.snapshot`."""
        return snapshot(self._database, flow, names=tables, asking=asking)

    def find_table(self, name: str) -> TableRecord | None:
        """See `current.find_table`."""
        return current.find_table(self._database, name)

    def table(self, name: str) -> TableRecord:
        """See `current.table`."""
        return current.table(self._database, name)

    def tables(self) -> list[TableRecord]:
        """See `current.all_tables`."""
        return current.all_tables(self._database)

    def slices(self, table: str, low: datetime, high: datetime) -> list[Slice]:
        """See `current.slices`."""
        return current.slices(self._database, table, low, high)

    def state(self, table: str, at: datetime) -> Slice | None:
        """See `current.state`."""
        return current.state(self._database, table, at)

    def newest(self, table: str) -> Slice | None:
        """See `current.newest`."""
        return current.newest(self._database, table)

    def last_recorded(self, table: str) -> Slice | None:
        """See `current.last_recorded`."""
        return current.last_recorded(self._database, table)

    def inputs(self, table: str, label: datetime) -> tuple[Input, ...]:
        """See `current.inputs`."""
        return current.inputs(self._database, table, label)

    def version_at(self, table: str, label: datetime) -> int | None:
        """See `current.version_at`."""
        return current.version_at(self._database, table, label)

    def versions(self, table: str) -> dict[datetime, int]:
        """See `current.versions_of`."""
        return current.versions_of(self._database, table)

    def committed(self, table: str) -> list[Committed]:
        """See `current.committed`."""
        return current.committed(self._database, table)

    def changed_slices(self, table: str, after: int) -> list[Committed]:
        """See `current.changed_slices`."""
        return current.changed_slices(self._database, table, after)

    def history(self, flow: Flow, asked: Mapping[str, datetime], since: datetime) -> History:
        """See `changes_since.history`."""
        return changes_since.history(self._database, flow, asked, since)

    def content(self, table: str, low: datetime, high: datetime) -> str:
        """Return what an interval of a table holds, as `facts.InputFact` compares it."""
        return current.contents(self._database, [(table, low, high)])[table, low, high]

    def pins(self, wanted: Collection[tuple[str, datetime, datetime]]) -> list[Pin]:
        """See `current.pins`."""
        return current.pins(self._database, wanted)

    def taken_items(self, table: str, names: Iterable[str] | None = None) -> set[str]:
        """See `current.taken_items`."""
        return current.taken_items(self._database, table, names)

    # what is told of the past

    def grid(self, tables: Collection[str], low: datetime = BEGINNING, high: datetime = FOREVER) -> list[Cell]:
        """See `status.grid`."""
        return status.grid(self._database, tables, low, high)

    def warned(
        self, tables: Collection[str], low: datetime = BEGINNING, high: datetime = FOREVER
    ) -> dict[tuple[str, datetime], int]:
        """See `status.warned`."""
        return status.warned(self._database, tables, low, high)

    def audit(self, table: str, label: datetime) -> Audit:
        """See `status.audit`."""
        return status.audit(self._database, table, label)

    def upstream(
        self, table: str, label: datetime, *, claim: int | None = None, depth: int | None = None
    ) -> list[Link]:
        """See `provenance.upstream`."""
        return provenance.upstream(self._database, table, label, claim=claim, depth=depth)

    def downstream(self, table: str, label: datetime, *, depth: int | None = None) -> list[Link]:
        """See `provenance.downstream`."""
        return provenance.downstream(self._database, table, label, depth=depth)

    def batches_rows(self) -> Iterator[dict[str, Any]]:
        """Return the rows of `waterclock.batches`; see `status.status_rows`."""
        return status.status_rows(self._database, "batches")

    def inputs_rows(self) -> Iterator[dict[str, Any]]:
        """Return the rows of `waterclock.inputs`; see `status.status_rows`."""
        return status.status_rows(self._database, "inputs")

    def events_rows(self) -> Iterator[dict[str, Any]]:
        """Return the rows of `waterclock.events`; see `status.status_rows`."""
        return status.status_rows(self._database, "events")

    def add_event(
        self,
        kind: str,
        *,
        who: str,
        table: str | None = None,
        label: datetime | None = None,
        claim: int | None = None,
        run: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Leave an event that no other method leaves: a foreign commit seen, a file set aside."""
        with self._database.write() as write:
            write.log(kind, who=who, table=table, labels=[label], claim=claim, run=run, data=data)

    def begin_run(self, *, who: str, command: str, now: datetime) -> str:
        """See `runs.begin_run`."""
        return runs.begin_run(self._database, who=who, command=command, now=now)

    def end_run(self, run: str, outcome: str, *, who: str) -> None:
        """See `runs.end_run`."""
        runs.end_run(self._database, run, outcome, who=who)

    def runs(self, most: int = 20) -> list[Run]:
        """See `runs.newest_runs`."""
        return runs.newest_runs(self._database, most)

    @property
    def keeping(self) -> Keeping:
        """How it is kept: exported, made again, told of what maintenance did."""
        return Keeping(self._database)
