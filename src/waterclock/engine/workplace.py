"""What every step of a batch needs at hand: the project, the ledger, the lake, Spark, and who listens."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from waterclock.batches.audit_trail import SPARK_PAGE
from waterclock.batches.former_names import FormerNames
from waterclock.batches.records import Claim
from waterclock.batches.schemas import SchemaVersion
from waterclock.dpl.project import Project
from waterclock.engine.code_lineages import CodeLineages
from waterclock.engine.connections import Connections
from waterclock.engine.links import Links, links_of
from waterclock.engine.progress import Listener, Silent
from waterclock.engine.run_settings import RunSettings
from waterclock.engine.shared_rows import SharedRows
from waterclock.engine.spark.session import Sessions
from waterclock.flow.choices import Kind
from waterclock.flow.declarations import Flow, Table
from waterclock.ledger.ledger import Ledger
from waterclock.storage.lake import Lake


@dataclass(slots=True)
class Workplace:
    """The surroundings of a run, shared by its threads. `now` of the run is passed beside it.

    `run` names the run in the ledger, where there is one. `past` is the ledger that knows which columns tables had,
    where it is not this one: a set of tables that is made beside the live ones. `former`: what was renamed.
    """

    project: Project
    ledger: Ledger
    lake: Lake
    sessions: Sessions
    connections: Connections
    settings: RunSettings = field(default_factory=RunSettings)
    listener: Listener = field(default_factory=Silent)
    run: str | None = None
    past: Ledger | None = None
    former: FormerNames = field(init=False)
    links: Links = field(init=False)
    shared: SharedRows = field(init=False)
    code_lineages: CodeLineages = field(init=False)
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

    @property
    def flow(self) -> Flow:
        """The checked flow that is carried out."""
        return self.project.flow

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.project.root

    def folder(self, table: Table) -> str:
        """Return the folder in which a table's slices are sealed, absolute; a publish has a stage of its own."""
        return self.lake.folder(f"publish/{table.name}" if table.kind is Kind.PUBLISH else table.name)

    def keep_alive(self, claim: Claim) -> None:
        """Have the heartbeat renew the claim's lease until `let_go`."""
        with self._lock:
            self._held[claim.number] = claim

    def let_go(self, claim: Claim) -> None:
        """Stop renewing the claim's lease."""
        with self._lock:
            self._held.pop(claim.number, None)

    def schemas_of(self, table: str) -> tuple[SchemaVersion, ...]:
        """Return the versions of a table's columns, as this run saw them first: who adds one looks anew."""
        with self._lock:
            known = self._schemas.get(table)
        if known is None:
            known = (self.past or self.ledger).reads.schemas(table)
            with self._lock:
                self._schemas[table] = known
        return known

    def forget_schemas(self, table: str) -> None:
        """Have the versions of a table's columns read anew."""
        with self._lock:
            self._schemas.pop(table, None)

    def is_time_for(self, what: str, seconds: float) -> bool:
        """Tell whether something is done for the first time, or for so long it was not; it then counts as done."""
        now = time.monotonic()
        with self._lock:
            is_time = what not in self._times or now - self._times[what] >= seconds
            if is_time:
                self._times[what] = now
        return is_time

    def tell_of_spark(self) -> None:
        """Leave in the ledger where Spark's own page is, once a run."""
        page = self.sessions.page()
        with self._lock:
            is_new = page is not None and self.run is not None and page not in self._noted
            self._noted |= {page} if page else set()
        if is_new:
            self.ledger.past.add_event(SPARK_PAGE, who=self.settings.who, run=self.run, data={"address": page})

    def leave(self, claim: Claim) -> None:
        """Note that nobody here works on the claim any more, though it is open: what became of it is not known."""
        with self._lock:
            self._left.add(claim.number)

    def left(self) -> frozenset[int]:
        """Return the numbers of the claims that were left open here."""
        with self._lock:
            return frozenset(self._left)

    def held(self) -> tuple[Claim, ...]:
        """Return the claims this runner is working on."""
        with self._lock:
            return tuple(self._held.values())

    def real_now(self) -> datetime:
        """Return the ledger's real clock: leases and timings alone use it."""
        return self.ledger.now()

    def note_once(self, message: str) -> None:
        """Tell the listener something that would otherwise be said again at every batch."""
        with self._lock:
            is_new = message not in self._noted
            self._noted.add(message)
        if is_new:
            self.listener.said(message)
