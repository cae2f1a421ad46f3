"""The ledger's public interface: one object over one database, safe to share between threads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, Self, TypeVar, overload

from waterclock.ledger.maintenance import Keeping
from waterclock.ledger.read import alerts as known_alerts
from waterclock.ledger.read import (
    changes_since,
    clock,
    current,
    durations,
    happenings,
    linked,
    notes,
    provenance,
    quality,
    signatures,
    source_notes,
    status,
    watching,
)
from waterclock.ledger.read import closings as past_closings
from waterclock.ledger.read import code_lineage as known_lineage
from waterclock.ledger.read import codes as past_codes
from waterclock.ledger.read import inputs as inputs_read
from waterclock.ledger.read import kept_at_sources as past_kept
from waterclock.ledger.read import measures as past_measures
from waterclock.ledger.read import offline as past_offline
from waterclock.ledger.read import pauses as past_pauses
from waterclock.ledger.read import runs as past_runs
from waterclock.ledger.read import schemas as past_schemas
from waterclock.ledger.read.closings import closings_in
from waterclock.ledger.read.snapshot import snapshot
from waterclock.ledger.section import Section, on_its_database
from waterclock.ledger.store.database import Clock, LedgerDatabase, open_database
from waterclock.ledger.store.read_only import look
from waterclock.ledger.write import (
    alerts,
    applying,
    claim_endings,
    claims,
    closings,
    code_lineage,
    completion,
    decisions,
    offline,
    openlineage,
    pauses,
    renaming,
    runners,
    runs,
    upstream,
)

R = TypeVar("R")


class DeclaredSection(Section):
    """The last applied declarations."""

    apply = on_its_database(applying.apply)
    applied_flow = on_its_database(applying.read_applied_flow)
    set_starts = on_its_database(applying.set_starts)
    former = on_its_database(renaming.former)
    say_pending = on_its_database(renaming.say_pending)
    refuse_pending = on_its_database(applying.refuse_pending)
    refused_tables = on_its_database(signatures.refused_tables)
    pending_renames = on_its_database(renaming.list_pending_renames)


class Claims(Section):
    """Rights to commit, and their outcomes."""

    take = on_its_database(claims.claim)
    renew = on_its_database(claim_endings.renew)
    open = on_its_database(claims.open_claims)
    close_lost = on_its_database(claim_endings.close_lost)
    record_done = on_its_database(completion.record_done)
    record_failed = on_its_database(claim_endings.record_failed)


class Runners(Section):
    """The runners at work."""

    register = on_its_database(runners.register)
    see = on_its_database(runners.see)
    leave = on_its_database(runners.leave)
    all = on_its_database(runners.all_runners)


class Decisions(Section):
    """Requests and decisions of users."""

    skip = on_its_database(decisions.record_skipped)
    retry = on_its_database(decisions.retry)
    request_backfill = on_its_database(decisions.request_backfill)
    close_books = on_its_database(closings.close_books)
    close_by_hand = on_its_database(closings.close_by_hand)
    reopen = on_its_database(closings.reopen)
    request_restate = on_its_database(decisions.request_restate)
    request_release = on_its_database(decisions.request_release)
    refuse_release = on_its_database(decisions.refuse_release)
    withdraw = on_its_database(decisions.withdraw)
    end_following = on_its_database(decisions.end_following)
    note_rule = on_its_database(decisions.note_rule)
    mark_restated = on_its_database(upstream.mark_restated)
    pause_tables = on_its_database(pauses.pause_tables)
    pause_all = on_its_database(pauses.pause_all)
    resume_tables = on_its_database(pauses.resume_tables)
    resume_all = on_its_database(pauses.resume_all)


class Reads(Section):
    """The data to which batches and queries are bound."""

    snapshot = on_its_database(snapshot)
    find_table = on_its_database(current.find_table)
    table = on_its_database(current.table)
    tables = on_its_database(current.all_tables)
    unknown_claims = on_its_database(current.unknown_claims)
    covered_windows = on_its_database(current.read_covered_windows)
    slices = on_its_database(current.slices)
    state = on_its_database(current.state)
    newest = on_its_database(current.newest)
    last_recorded = on_its_database(current.last_recorded)
    clock_back = on_its_database(clock.clock_back)
    inputs = on_its_database(current.inputs)
    reads_starting_within = on_its_database(inputs_read.find_reads_starting_within)
    version_at = on_its_database(current.version_at)
    versions = on_its_database(current.versions_of)
    committed_slices = on_its_database(current.list_committed_slices)
    changed_slices = on_its_database(current.changed_slices)
    history = on_its_database(changes_since.history)
    content = on_its_database(current.content)
    contents = on_its_database(current.contents)
    pins = on_its_database(current.pins)
    taken_items = on_its_database(current.taken_items)
    owned_items = on_its_database(current.owned_items)
    read_closed_since = on_its_database(past_closings.read_closed_since)
    source_notes = on_its_database(source_notes.list_source_notes)
    closings = on_its_database(closings_in)
    held_labels = on_its_database(quality.list_held_labels)
    held_claim = on_its_database(quality.find_held_claim)
    set_aside = on_its_database(quality.set_aside)
    slices_aside = on_its_database(quality.slices_aside)
    schemas = on_its_database(past_schemas.schemas_of)
    measures_before = on_its_database(past_measures.read_measures_before)
    read_elsewhere = on_its_database(linked.read_elsewhere)
    declarations = on_its_database(linked.read_declarations)
    closed_ticks = on_its_database(past_closings.ticks_from)


class Alerts(Section):
    """Root causes that are reported to users, and the messages waiting to be sent."""

    record_look = on_its_database(alerts.record_look)
    acknowledge = on_its_database(alerts.acknowledge)
    take_message = on_its_database(alerts.take_message)
    note_sent = on_its_database(alerts.note_sent)
    note_lost = on_its_database(alerts.note_lost)
    known = on_its_database(known_alerts.alerts_known)
    outgoing_messages = on_its_database(known_alerts.list_outgoing_messages)
    warned_since_look = on_its_database(known_alerts.warned_since_look)


class LineageSection(Section):
    """The column lineage of Python transforms."""

    of_code = on_its_database(known_lineage.code_lineages)
    note_code = on_its_database(code_lineage.note_code)


class OfflineMeasures(Section):
    """Results of offline measurements, and when they ran."""

    newest_runs = on_its_database(past_offline.read_offline_runs)
    kept_labels = on_its_database(past_offline.kept_labels)
    states = on_its_database(past_offline.states)
    newest_spans = on_its_database(past_offline.newest_spans)
    take_look = on_its_database(offline.take_look)
    keep_found = on_its_database(offline.keep_found)
    end_look = on_its_database(offline.end_look)


class OpenLineage(Section):
    """The outcomes of attempts and runs, in order, for lineage tools, and how far they have been sent."""

    happenings_after = on_its_database(happenings.read_happenings_after)
    state = on_its_database(happenings.openlineage_state)
    take = on_its_database(openlineage.take)
    note_sent = on_its_database(openlineage.note_sent)
    note_lost = on_its_database(openlineage.note_lost)
    note_left_out = on_its_database(openlineage.note_left_out)
    give_back = on_its_database(openlineage.give_back)
    begin_again = on_its_database(openlineage.begin_again)


class PastSection(Section):
    """The history of batches, runs and events."""

    grid = on_its_database(status.grid)
    newest = on_its_database(status.newest)
    made_labels = on_its_database(status.list_made_labels)
    oldest_label = on_its_database(status.oldest_label)
    amount = on_its_database(status.amount)
    settled_labels = on_its_database(status.read_settled_labels)
    row_warnings = on_its_database(status.read_row_warnings)
    durations = on_its_database(durations.durations)
    at_work = on_its_database(watching.at_work)
    began = on_its_database(watching.began)
    began_by = on_its_database(watching.began_by)
    newest_made = on_its_database(watching.newest_made)
    newest_rows = on_its_database(watching.newest_rows)
    empty_at_last = on_its_database(watching.empty_at_last)
    rule_notes = on_its_database(notes.rule_notes)
    audit = on_its_database(status.audit)
    codes = on_its_database(past_codes.codes)
    newest_counted = on_its_database(past_measures.newest_counted)
    newest_schemas = on_its_database(past_schemas.newest_schemas)
    pauses = on_its_database(past_pauses.pauses)
    upstream = on_its_database(provenance.upstream)
    downstream = on_its_database(provenance.downstream)
    rows = on_its_database(status.status_rows)
    columns = on_its_database(status.status_columns)
    kept_at_sources = on_its_database(past_kept.kept_at_sources)
    kept_for_tables = on_its_database(past_kept.read_kept_for_tables)
    seen_at_sources = on_its_database(past_kept.seen_at_sources)
    waits_for_sources = on_its_database(past_kept.waits_for_sources)
    add_event = on_its_database(runs.add_event)
    begin_run = on_its_database(runs.begin_run)
    end_run = on_its_database(runs.end_run)
    runs = on_its_database(past_runs.newest_runs)
    find_run = on_its_database(past_runs.find_run)
    spark_page = on_its_database(past_runs.spark_page)
    claims_of_run = on_its_database(past_runs.claims_of_run)


class Ledger:
    """The durable record of a project, by its sections. No method keeps a transaction open.

    Methods raise E415 (transient) where another process holds the database's lock, and E416 where the database fails.
    They raise E423 (transient) where its server is unavailable, and E425 where the ledger was moved.
    """

    def __init__(self, database: LedgerDatabase) -> None:
        self._database = database
        self.declared = DeclaredSection(database)
        self.claims = Claims(database)
        self.runners = Runners(database)
        self.decisions = Decisions(database)
        self.reads = Reads(database)
        self.past = PastSection(database)
        self.alerts = Alerts(database)
        self.lineage = LineageSection(database)
        self.offline = OfflineMeasures(database)
        self.openlineage = OpenLineage(database)
        self.keeping = Keeping(database)

    @overload
    @classmethod
    def open(cls, url: str, *, create: Literal[True] = True, clock: Clock | None = None) -> Ledger: ...
    @overload
    @classmethod
    def open(cls, url: str, *, create: bool, clock: Clock | None = None) -> Ledger | None: ...
    @classmethod
    def open(cls, url: str, *, create: bool = True, clock: Clock | None = None) -> Ledger | None:
        """Open the ledger at a SQLAlchemy URL, and upgrade it to the newest schema.

        `sqlite:///path`, `sqlite://` in memory, or `postgresql://user@host/database?schema=name`. Without `create`, the
        result is None for a ledger that does not exist, and nothing is created. `clock` is for tests.
        Raises  E401 for a database that is no ledger, E402 for one of newer code, E403 for an unknown kind of URL,
                E422 for a damaged file, E423 where its server does not answer, E424 where its driver is missing
        """
        database = open_database(url, create=create, clock=clock)
        return None if database is None else cls(database)

    @classmethod
    def look(cls, url: str, ask: Callable[[Ledger], R]) -> R | None:
        """Query another project's ledger without ever writing to it; return None where there is none.

        Raises  as `looking.look`
        """
        return look(url, lambda database: ask(cls(database)))

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answers(self) -> bool:
        """Return whether the database answers now, without waiting for an unavailable one."""
        return self._database.answers()

    def tell(self, said: Callable[[str], None]) -> None:
        """Set the function that receives a message when the ledger waits for its server."""
        self._database.tell = said

    def log_in_by(self, url: Callable[[], str]) -> None:
        """Set a function that returns the URL with user and password for each new connection; only for servers."""
        self._database.log_in_by(url)

    def now(self) -> datetime:
        """Return the ledger's real clock, used for leases and event times: the server's, where there is one."""
        return self._database.clock()

    def sequence(self) -> int:
        """Return a number that rises with every write: snapshots with the same number are equal."""
        return self._database.sequence()
