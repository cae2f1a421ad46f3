"""Polls the other projects that this one collects from: their progress, and the labels that they restated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from waterclock.batches.ledger_snapshot import InputFact, LedgerSnapshot
from waterclock.batches.linked_projects import LinkFacts
from waterclock.batches.records import Input, Pin
from waterclock.connectors.interface import LinkedCollector, ProjectPlace
from waterclock.dpl.project import Project
from waterclock.engine.connections import Connections, connections_of
from waterclock.errors import WaterclockError
from waterclock.files.object_stores import is_remote
from waterclock.flow.declarations import Flow, Table, Unit
from waterclock.flow.enums import FOLDS, Mode
from waterclock.flow.linked_projects import linked_tables, upstream_of
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.snapshot import NOBODY, RequestsByVerb
from waterclock.planner.linked_projects import add_links, explain_window_mismatch, is_by_label, linked_span
from waterclock.planner.plan import Batch
from waterclock.timelabel.window import Window

# For each label whose recorded input differs from the current one: the claim that made it, and both inputs.
_ChangedInputs = Mapping[datetime, tuple[int, InputFact]]


def open_linked_source(connections: Connections, table: Table) -> tuple[Unit, LinkedCollector]:
    """Open the other project that a table collects from."""
    if table.source is None:
        raise AssertionError(f"{table.name} collects from nowhere")
    unit = connections.resolve_unit(table.source.unit)
    collector = connections.collector(unit.connection)
    if not isinstance(collector, LinkedCollector):
        raise AssertionError(f"{unit} is no table of another project, which check refuses")  # noqa: TRY004
    return unit, collector


class Links:
    """The other projects that a flow collects from. Inputs are compared again only after one of the ledgers changed."""

    def __init__(self, flow: Flow, connections: Connections, own: ProjectPlace | None = None) -> None:
        self._flow = flow
        self._connections = connections
        self._own = own
        self._compared: dict[str, tuple[object, _ChangedInputs]] = {}
        self._circles: dict[str, tuple[int, str | None]] = {}
        self.tables = linked_tables(flow)

    def read_progress(self, ledger: Ledger | None) -> dict[str, LinkFacts]:
        """Map each linked table of this project to the other project's progress.

        Errors are part of the progress, and not raised.
        """
        return {name: link for name, (link, _) in self._read_links(ledger).items()}

    def marked_snapshot(self, ledger: Ledger, who: str, asking: RequestsByVerb = NOBODY) -> LedgerSnapshot:
        """Record restatements of other projects in the ledger, and return its snapshot with these projects' facts.

        Each revision is recorded once, no matter which runners poll and how often.
        """
        snapshot = ledger.reads.snapshot(self._flow, asking=asking)
        if not self.tables:
            return snapshot
        seen = self._read_links(ledger)
        is_new = False
        for name, (link, changed) in seen.items():
            suspects = snapshot.of(name).suspects
            new = {label: claim for label, (claim, _) in changed.items() if label not in suspects}
            is_new = (new and ledger.decisions.mark_restated(name, new, upstream=link.upstream, who=who) > 0) or is_new
        snapshot = ledger.reads.snapshot(self._flow, asking=asking) if is_new else snapshot
        return add_links(snapshot, {name: link for name, (link, _) in seen.items()})

    def is_at_hand(self, table: Table) -> bool:
        """Return whether the ledger and the storage of a table's other project are on this machine.

        Also True if the project cannot be found: its absence is an error, and no server is queried to find that.
        """
        try:
            place = open_linked_source(self._connections, table)[1].place()
        except WaterclockError:
            return True
        return place.ledger.startswith("sqlite:") and not is_remote(place.storage)

    def pins(self, table: Table, windows: list[Window]) -> list[tuple[Window, Pin]]:
        """Return each window with the version of the other project to read. Raises E833 to E838 if there is none."""
        unit, collector = open_linked_source(self._connections, table)
        link = self._check_link(table, collector.facts(unit))
        if link.problem is not None:
            raise link.problem
        spans = [span for window in windows if (span := linked_span(table, link, window)) is not None]
        return list(zip(windows, collector.pins(unit, spans), strict=True))

    def _read_links(self, ledger: Ledger | None) -> dict[str, tuple[LinkFacts, _ChangedInputs]]:
        return {name: self._link(ledger, table) for name, table in self.tables.items()}

    def _link(self, ledger: Ledger | None, table: Table) -> tuple[LinkFacts, _ChangedInputs]:
        try:
            unit, collector = open_linked_source(self._connections, table)
            link = self._check_link(table, collector.facts(unit))
            if link.problem is not None:
                return link, {}
            link = replace(link, circle=self._circle(table, unit, collector, link))
            if link.cadence is None or ledger is None:
                return link, {}
            changed = self._find_changed_labels(ledger, table, link)
        except WaterclockError as error:
            return LinkFacts(upstream_of(table) or table.name, problem=error), {}
        return replace(link, changed={label: fact for label, (_, fact) in changed.items()}), changed

    def _circle(self, table: Table, unit: Unit, collector: LinkedCollector, link: LinkFacts) -> str | None:
        """Return a table of this project for which the other one waits in turn. None if no such cycle is known."""
        known = self._circles.get(table.name)
        if self._own is not None and (known is None or known[0] != link.sequence):
            known = link.sequence, collector.circle(unit, self._own, self._find_descendants(table.name))
            self._circles[table.name] = known
        return None if known is None else known[1]

    def _find_descendants(self, name: str) -> frozenset[str]:
        """Return a table of this project and all tables that are made from it."""
        found = {name}
        while new := {
            table.name
            for table in self._flow.tables.values()
            if table.name not in found and any(read.table in found for read in table.reads)
        }:
            found |= new
        return frozenset(found)

    def _check_link(self, table: Table, link: LinkFacts) -> LinkFacts:
        """Return `link`, with an error in it if the table cannot be read as it is declared."""
        if link.problem is not None or link.cadence is None:
            return link
        is_of_slices = link.mode is Mode.APPEND
        if is_of_slices != is_by_label(table):
            return replace(link, problem=_read_mode_error(table, link, is_of_slices=is_of_slices))
        if (found := explain_window_mismatch(table, link)) is None:
            return link
        why, fix = found
        what = f"windows of {table.name} do not fit those of {link.upstream}"
        return replace(link, problem=WaterclockError("E835", what, where=str(table.place), why=why, fix=fix))

    def _find_changed_labels(self, ledger: Ledger, table: Table, link: LinkFacts) -> _ChangedInputs:
        """Map each label whose recorded input differs from the current one to its claim and both inputs.

        Labels that RETAIN has dropped in the other project do not count as changed. The input of a MERGE or TEMPORAL
        table is all its slices from the first on, even if an older one was added since. Cost: a read of both ledgers if
        one of them has changed.
        """
        unit, collector = open_linked_source(self._connections, table)
        recorded = ledger.reads.read_elsewhere(table.name, link.upstream)
        state = link.sequence, hash(tuple(each.claim for each in recorded))
        compared = self._compared.get(table.name)
        if compared is not None and compared[0] == state:
            return compared[1]
        dropped = link.past.dropped_before
        kept = [each for each in recorded if dropped is None or each.low >= dropped]
        if link.mode in FOLDS and link.oldest_instant is not None:
            kept = [replace(each, low=min(each.low, link.oldest_instant)) for each in kept]
        contents = collector.contents(unit, [(each.low, each.high) for each in kept]) if kept else ()
        changed = {
            each.label: (each.claim, InputFact(link.upstream, each.low, each.high, each.content, now))
            for each, now in zip(kept, contents, strict=True)
            if now != each.content
        }
        self._compared[table.name] = state, changed
        return changed


def links_of(project: Project, connections: Connections) -> Links:
    """Build the `Links` of a project: the other projects from which its tables collect."""
    ledger = project.ledger if isinstance(project.ledger, str) else ""
    return Links(project.flow, connections, ProjectPlace(ledger, project.storage, project.root))


def link_errors(project: Project) -> list[WaterclockError]:
    """Return the errors that prevent tables from collecting from other projects, located at each table's declaration.

    No server is queried. A project that has not run yet is no error: its tables wait for it.
    """
    links = links_of(project, connections_of(project))
    links.tables = {name: table for name, table in links.tables.items() if links.is_at_hand(table)}
    found = []
    for name, link in links.read_progress(None).items():
        if link.problem is not None and not link.problem.transient:
            link.problem.where = f"{project.flow.tables[name].place}"
            found.append(link.problem)
    return found


def linked_inputs(table: Table, pins: Iterable[tuple[Window, Pin]]) -> dict[datetime, tuple[Input, ...]]:
    """Map each label of a linked table to its inputs, for the audit trail."""
    kind = "slices" if is_by_label(table) else "state"
    return {window.start: (replace(pin.input(pin.table, kind), changes=None),) for window, pin in pins}


def recorded_inputs(ledger: Ledger, table: Table, labels: Iterable[datetime]) -> dict[datetime, tuple[Input, ...]]:
    """Map each label that is made again from stored rows of another project to its recorded inputs.

    The inputs stay as of that collection, so that later restatements of the other project are still detected.
    """
    if upstream_of(table) is None:
        return {}
    return {label: reads for label in labels if (reads := ledger.reads.inputs(table.name, label))}


def find_link_problems(
    links: Mapping[str, LinkFacts], batches: tuple[Batch, ...]
) -> dict[str, tuple[Batch, WaterclockError]]:
    """Map each due table that cannot read the other project to its first due batch and the error.

    Transient errors are left out, such as a server that is unavailable: the table waits.
    """
    found: dict[str, tuple[Batch, WaterclockError]] = {}
    for batch in batches:
        link = links.get(batch.table)
        if link is not None and link.problem is not None and not link.problem.transient:
            found.setdefault(batch.table, (batch, link.problem))
    return found


def _read_mode_error(table: Table, link: LinkFacts, *, is_of_slices: bool) -> WaterclockError:
    why = "is stored by labels, which are read one by one" if is_of_slices else "is one state, without rows by label"
    return WaterclockError(
        "E834",
        f"{link.upstream} cannot be read in this way",
        where=str(table.place),
        why=f"it {why}",
        fix="declare BY DATA TIME timelabel" if is_of_slices else "leave BY DATA TIME timelabel out",
    )
