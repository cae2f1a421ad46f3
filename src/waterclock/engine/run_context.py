"""Holds the resources that every step of a batch needs: project, ledger, lake, Spark sessions and listener."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from waterclock.batches.audit_records import SPARK_PAGE
from waterclock.batches.earlier_revisions import OfferedRevisions
from waterclock.batches.former_names import FormerNames
from waterclock.batches.records import Claim
from waterclock.batches.schemas import SchemaVersion
from waterclock.dpl.project import Project
from waterclock.engine.code_lineage_cache import CodeLineages
from waterclock.engine.connections import Connections
from waterclock.engine.linked_projects import Links, links_of
from waterclock.engine.run_listener import Listener
from waterclock.engine.run_settings import RunSettings
from waterclock.engine.shared_rows import SharedRows
from waterclock.engine.spark.keys import KeysOfProject
from waterclock.engine.spark.session import Sessions
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind
from waterclock.ledger.ledger import Ledger
from waterclock.metastore.entering import TableEntries
from waterclock.secrets.reader import Secrets
from waterclock.storage.lake import Lake


@dataclass(slots=True)
class RunContext:
    """The resources of a run, shared by its threads. The run's `now` is passed separately.

    `run` is the name of the run in the ledger, if it has one. `past` is given while a second table set is made next to
    the live one: the live ledger, which has the tables' schema versions. `offered` are slices of a branch that batches
    may adopt. `former` maps the old names of renamed tables.
    """

    project: Project
    ledger: Ledger
    lake: Lake
    sessions: Sessions
    connections: Connections
    settings: RunSettings = field(default_factory=RunSettings)
    listener: Listener = field(default_factory=Listener)
    run: str | None = None
    past: Ledger | None = None
    offered: OfferedRevisions | None = None
    former: FormerNames = field(init=False)
    links: Links = field(init=False)
    shared: SharedRows = field(init=False)
    code_lineages: CodeLineages = field(init=False)
    catalog: TableEntries | None = field(init=False)
    _held: dict[int, Claim] = field(default_factory=dict)
    _left: set[int] = field(default_factory=set)
    _noted: set[str] = field(default_factory=set)
    _times: dict[str, float] = field(default_factory=dict)
    _schemas: dict[str, tuple[SchemaVersion, ...]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.former = (self.past or self.ledger).declared.former()
        self.links = links_of(self.project, self.connections)
        self.shared = SharedRows(self.lake.root, self.settings.runner)
        self.code_lineages = CodeLineages(self.root, self.past or self.ledger)
        at = self.project.catalog
        self.catalog = None if at is None else TableEntries(at, self.project.name, self.project.env)

    @property
    def flow(self) -> Flow:
        """The checked flow of the project."""
        return self.project.flow

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.project.root

    @property
    def keys(self) -> KeysOfProject:
        """The keys of the project's connections of type `keys`, for functions such as `hash_keyed`."""
        # a branch reads the tokens of the environment that collects, and adds none
        tokens = self.project.bases[-1].storage if self.project.bases else self.lake.vault_root
        return KeysOfProject.from_flow(self.flow, Secrets.from_places(self.project.secrets), tokens)

    def folder(self, table: Table) -> str:
        """Return the absolute path of a table's folder. A PUBLISH has a folder of its own for its slices."""
        return self.lake.folder(f"publish/{table.name}" if table.kind is Kind.PUBLISH else table.name)

    def keep_alive(self, claim: Claim) -> None:
        """Make the heartbeat renew the claim's lease until `end_lease`."""
        with self._lock:
            self._held[claim.number] = claim

    def end_lease(self, claim: Claim) -> None:
        """Stop renewing the claim's lease."""
        with self._lock:
            self._held.pop(claim.number, None)

    def schemas_of(self, table: str) -> tuple[SchemaVersion, ...]:
        """Return the schema versions of a table, from a cache. `forget_schemas` clears it."""
        with self._lock:
            known = self._schemas.get(table)
        if known is None:
            known = (self.past or self.ledger).reads.schemas(table)
            with self._lock:
                self._schemas[table] = known
        return known

    def forget_schemas(self, table: str) -> None:
        """Clear the cached schema versions of a table."""
        with self._lock:
            self._schemas.pop(table, None)

    def is_time_for(self, what: str, seconds: float) -> bool:
        """Return whether the action `what` was not done in the last `seconds`. If so, it counts as done now."""
        now = time.monotonic()
        with self._lock:
            is_time = what not in self._times or now - self._times[what] >= seconds
            if is_time:
                self._times[what] = now
        return is_time

    def record_spark_page(self) -> None:
        """Record the address of Spark's web UI in the ledger, once per run."""
        page = self.sessions.page()
        with self._lock:
            is_new = page is not None and self.run is not None and page not in self._noted
            self._noted |= {page} if page else set()
        if is_new:
            self.ledger.past.add_event(SPARK_PAGE, who=self.settings.who, run=self.run, data={"address": page})

    def leave(self, claim: Claim) -> None:
        """Remember that this runner stops working on a claim whose outcome is unknown. The claim stays open."""
        with self._lock:
            self._left.add(claim.number)

    def abandoned_claims(self) -> frozenset[int]:
        """Return the numbers of the claims that this runner left open."""
        with self._lock:
            return frozenset(self._left)

    def active_claims(self) -> tuple[Claim, ...]:
        """Return the claims that this runner is working on."""
        with self._lock:
            return tuple(self._held.values())

    def real_now(self) -> datetime:
        """Return the current time by the ledger's clock, which `--now` does not change."""
        return self.ledger.now()

    def report_once(self, message: str) -> None:
        """Send a message to the listener, unless this run has sent the same one before."""
        with self._lock:
            is_new = message not in self._noted
            self._noted.add(message)
        if is_new:
            self.listener.on_message(message)
