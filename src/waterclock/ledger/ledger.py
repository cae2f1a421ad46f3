"""The ledger's public interface: one object over one database, safe to share between threads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, Self, TypeVar, overload

from waterclock.ledger.decisions import Decisions
from waterclock.ledger.maintenance import Keeping
from waterclock.ledger.past import PastSection
from waterclock.ledger.read import alerts as known_alerts
from waterclock.ledger.read import code_lineage as known_lineage
from waterclock.ledger.read import offline as past_offline
from waterclock.ledger.read import (
    run_events,
    signatures,
)
from waterclock.ledger.reads import Reads
from waterclock.ledger.section import Section, on_its_database
from waterclock.ledger.store.database import Clock, LedgerDatabase, open_database
from waterclock.ledger.store.read_only import look
from waterclock.ledger.write import (
    alerts,
    applying,
    claim_endings,
    claims,
    code_lineage,
    completion,
    offline,
    openlineage,
    renaming,
    runners,
)

R = TypeVar("R")


class DeclaredSection(Section):
    """Applies the declarations of a flow to the ledger, and reads those that were applied last."""

    apply = on_its_database(applying.apply)
    applied_flow = on_its_database(applying.read_applied_flow)
    set_starts = on_its_database(applying.set_starts)
    former = on_its_database(renaming.former)
    say_pending = on_its_database(renaming.say_pending)
    refuse_pending = on_its_database(applying.refuse_pending)
    refused_tables = on_its_database(signatures.refused_tables)
    pending_renames = on_its_database(renaming.list_pending_renames)


class Claims(Section):
    """Takes, renews and closes claims, and records their outcomes."""

    take = on_its_database(claims.claim)
    renew = on_its_database(claim_endings.renew)
    open = on_its_database(claims.open_claims)
    close_lost = on_its_database(claim_endings.close_lost)
    record_done = on_its_database(completion.record_done)
    record_failed = on_its_database(claim_endings.record_failed)


class Runners(Section):
    """Registers the runners that are active, and lists them."""

    register = on_its_database(runners.register)
    see = on_its_database(runners.see)
    leave = on_its_database(runners.leave)
    all = on_its_database(runners.all_runners)


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

    happenings_after = on_its_database(run_events.read_happenings_after)
    state = on_its_database(run_events.openlineage_state)
    take = on_its_database(openlineage.take)
    note_sent = on_its_database(openlineage.note_sent)
    note_lost = on_its_database(openlineage.note_lost)
    note_left_out = on_its_database(openlineage.note_left_out)
    give_back = on_its_database(openlineage.give_back)
    begin_again = on_its_database(openlineage.begin_again)


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
        """Query another project's ledger without writing to it; None if there is none. Raises  as `read_only.look`."""
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
        """Return the ledger's real time, used for leases and events: the server's, or for a file this machine's."""
        return self._database.clock()

    def sequence(self) -> int:
        """Return a number that rises with every write: snapshots with the same number are equal."""
        return self._database.sequence()
