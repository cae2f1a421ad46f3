"""The ledger's public interface: one object over one database, safe to share between threads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, Self, TypeVar, overload

from waterclock.ledger.read import access as known_access
from waterclock.ledger.read import alerts as known_alerts
from waterclock.ledger.read import code_lineage as known_lineage
from waterclock.ledger.read import offline as past_offline
from waterclock.ledger.read import (
    run_events,
    signatures,
)
from waterclock.ledger.sections.decisions import Decisions
from waterclock.ledger.sections.erasures import ErasureSection
from waterclock.ledger.sections.maintenance import MaintenanceSection
from waterclock.ledger.sections.past import PastSection
from waterclock.ledger.sections.reads import Reads
from waterclock.ledger.sections.section import DatabaseMethod, Section
from waterclock.ledger.store.database import Clock, LedgerDatabase, open_database
from waterclock.ledger.store.read_only import read_ledger
from waterclock.ledger.write import (
    access,
    alerts,
    claim_endings,
    claims,
    code_lineage,
    completion,
    flow_declarations,
    offline,
    openlineage,
    renaming,
    runners,
)

R = TypeVar("R")


class DeclaredSection(Section):
    """Applies the declarations of a flow to the ledger, and reads those that were applied last."""

    apply = DatabaseMethod(flow_declarations.apply)
    applied_flow = DatabaseMethod(flow_declarations.read_applied_flow)
    set_starts = DatabaseMethod(flow_declarations.set_starts)
    former = DatabaseMethod(renaming.read_former_names)
    apply_pending_renames = DatabaseMethod(renaming.apply_pending_renames)
    require_valid_renames = DatabaseMethod(flow_declarations.require_valid_renames)
    refused_tables = DatabaseMethod(signatures.refused_tables)
    pending_renames = DatabaseMethod(renaming.list_pending_renames)


class Claims(Section):
    """Takes, renews and closes claims, and records their outcomes."""

    take = DatabaseMethod(claims.claim)
    renew = DatabaseMethod(claim_endings.renew)
    open = DatabaseMethod(claims.open_claims)
    close_lost = DatabaseMethod(claim_endings.close_lost)
    record_done = DatabaseMethod(completion.record_done)
    record_failed = DatabaseMethod(claim_endings.record_failed)


class Runners(Section):
    """Registers the runners that are active, and lists them."""

    register = DatabaseMethod(runners.register_runner)
    see = DatabaseMethod(runners.renew_runner)
    leave = DatabaseMethod(runners.end_runner)
    all = DatabaseMethod(runners.list_runners)


class Alerts(Section):
    """Stores alerts about root causes of failures, and the messages about them that wait to be sent."""

    record_alert_check = DatabaseMethod(alerts.record_alert_check)
    acknowledge = DatabaseMethod(alerts.acknowledge)
    take_message = DatabaseMethod(alerts.take_message)
    record_sent = DatabaseMethod(alerts.record_sent)
    record_lost = DatabaseMethod(alerts.record_lost)
    known = DatabaseMethod(known_alerts.list_alerts)
    outgoing_messages = DatabaseMethod(known_alerts.list_outgoing_messages)
    find_warned_batches = DatabaseMethod(known_alerts.find_warned_batches)


class LineageSection(Section):
    """Stores and reads the column lineage of Python transforms."""

    of_code = DatabaseMethod(known_lineage.code_lineages)
    record_code_lineage = DatabaseMethod(code_lineage.record_code_lineage)


class OfflineMeasures(Section):
    """Stores and reads results of offline measurements, and when they ran."""

    newest_runs = DatabaseMethod(past_offline.read_offline_runs)
    list_measured_labels = DatabaseMethod(past_offline.list_measured_labels)
    states = DatabaseMethod(past_offline.read_partial_aggregates)
    newest_spans = DatabaseMethod(past_offline.newest_spans)
    reserve_measurement = DatabaseMethod(offline.reserve_measurement)
    record_measurements = DatabaseMethod(offline.record_measurements)
    finish_measurement = DatabaseMethod(offline.finish_measurement)


class OpenLineage(Section):
    """Reads the outcomes of attempts and runs in order, and records up to which event OpenLineage has them."""

    happenings_after = DatabaseMethod(run_events.read_lineage_events)
    state = DatabaseMethod(run_events.openlineage_state)
    take = DatabaseMethod(openlineage.take_sending_turn)
    record_sent = DatabaseMethod(openlineage.record_sent)
    record_lost = DatabaseMethod(openlineage.record_lost)
    record_rejected = DatabaseMethod(openlineage.record_rejected)
    end_turn = DatabaseMethod(openlineage.end_turn)
    reset_progress = DatabaseMethod(openlineage.reset_progress)


class AccessSection(Section):
    """Stores access tokens, and the log of user actions, both permitted and refused."""

    create_token = DatabaseMethod(access.create_token)
    revoke_token = DatabaseMethod(access.revoke_token)
    list_tokens = DatabaseMethod(known_access.list_tokens)
    find_token = DatabaseMethod(known_access.find_token)
    record = DatabaseMethod(access.record_accesses)
    list_accesses = DatabaseMethod(known_access.list_accesses)
    forget = DatabaseMethod(access.forget_accesses)


class Ledger:
    """The ledger of a project. Its methods are grouped in sections; none keeps a transaction open.

    Methods raise E415 (transient) if another process holds the database's lock, and E416 if the database fails. They
    raise E423 (transient) if its server is unavailable, and E425 if the ledger was moved.
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
        self.access = AccessSection(database)
        self.maintenance = MaintenanceSection(database)
        self.erasures = ErasureSection(database)

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
        result is None for a ledger that does not exist, and nothing is created. `clock` is for tests. Raises E401 for a
        database that is no ledger, E402 for one of newer code, E403 for an unknown kind of URL, E422 for a damaged
        file, E423 if its server does not answer, E424 if its driver is missing.
        """
        database = open_database(url, create=create, clock=clock)
        return None if database is None else cls(database)

    @classmethod
    def query(cls, url: str, ask: Callable[[Ledger], R]) -> R | None:
        """Query another project's ledger without writing to it; None if it does not exist.

        Raises the errors of `read_ledger`.
        """
        return read_ledger(url, lambda database: ask(cls(database)))

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

    def report_to(self, listener: Callable[[str], None]) -> None:
        """Set the function that receives messages: about a wait for the server, a renamed table, a clock set back."""
        self._database.report = listener

    def log_in_by(self, url: Callable[[], str]) -> None:
        """Set the function that returns a URL with user and password for each new connection to a server."""
        self._database.log_in_by(url)

    def now(self) -> datetime:
        """Return the ledger's real time, used for leases and events: the server's, or for a file this machine's."""
        return self._database.clock()

    def sequence(self) -> int:
        """Return a number that rises with every write. Two snapshots with the same number are equal."""
        return self._database.sequence()
