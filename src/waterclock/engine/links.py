"""Looks at the other projects that tables of this one collect: how far they are, and what they have restated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from waterclock.batches.facts import InputFact, LedgerSnapshot
from waterclock.batches.links import LinkFacts
from waterclock.batches.records import Input, Pin
from waterclock.connectors.interface import LinkedCollector, ProjectPlace
from waterclock.dpl.project import Project
from waterclock.engine.connections import Connections, connections_of
from waterclock.errors import WaterclockError
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Flow, Table, Unit
from waterclock.flow.links import linked_tables, upstream_of
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.snapshot import NOBODY, Asking
from waterclock.planner.links import is_by_label, linked_span, misfit, with_links
from waterclock.planner.plan import Batch
from waterclock.timelabel.window import Window

# by label the claim that made it, and what it read and would read now, where the two differ
_Changed = Mapping[datetime, tuple[int, InputFact]]


class Links:
    """The other projects of a flow. What was compared once is compared again only where one of both has gone on."""

    def __init__(self, flow: Flow, connections: Connections, own: ProjectPlace | None = None) -> None:
        self._flow = flow
        self._connections = connections
        self._own = own
        self._compared: dict[str, tuple[object, _Changed]] = {}
        self._circles: dict[str, tuple[int, str | None]] = {}
        self.tables = linked_tables(flow)

    def look(self, ledger: Ledger | None) -> dict[str, LinkFacts]:
        """Return how far each other project is, by table of ours. Never raises for what is wrong with one of them."""
        return {name: link for name, (link, _) in self._seen(ledger).items()}

    def marked_snapshot(self, ledger: Ledger, who: str, asking: Asking = NOBODY) -> LedgerSnapshot:
        """Return our past with what is known of the other projects; what they have restated is marked in our ledger.

        Each revision is marked once, whoever looks and however often.
        """
        snapshot = ledger.reads.snapshot(self._flow, asking=asking)
        if not self.tables:
            return snapshot
        seen = self._seen(ledger)
        is_new = False
        for name, (link, changed) in seen.items():
            suspects = snapshot.of(name).suspects
            new = {label: claim for label, (claim, _) in changed.items() if label not in suspects}
            is_new = (new and ledger.decisions.mark_restated(name, new, upstream=link.upstream, who=who) > 0) or is_new
        snapshot = ledger.reads.snapshot(self._flow, asking=asking) if is_new else snapshot
        return with_links(snapshot, {name: link for name, (link, _) in seen.items()})

    def pins(self, table: Table, windows: list[Window]) -> list[tuple[Window, Pin]]:
        """Bind what windows of a linked table read to what is there now.

        Raises  what keeps the table from being read
        """
        unit, collector = self._opened(table)
        link = self._checked(table, collector.facts(unit))
        if link.problem is not None:
            raise link.problem
        spans = [span for window in windows if (span := linked_span(table, link, window)) is not None]
        return list(zip(windows, collector.pins(unit, spans), strict=True))

    def _opened(self, table: Table) -> tuple[Unit, LinkedCollector]:
        if table.source is None:
            raise AssertionError(f"{table.name} collects from nowhere")
        unit = self._connections.opened(table.source.unit)
        collector = self._connections.collector(unit.connection)
        if not isinstance(collector, LinkedCollector):
            raise AssertionError(f"{unit} is no table of another project, which check refuses")  # noqa: TRY004
        return unit, collector

    def _seen(self, ledger: Ledger | None) -> dict[str, tuple[LinkFacts, _Changed]]:
        return {name: self._link(ledger, table) for name, table in self.tables.items()}

    def _link(self, ledger: Ledger | None, table: Table) -> tuple[LinkFacts, _Changed]:
        try:
            unit, collector = self._opened(table)
            link = self._checked(table, collector.facts(unit))
            if link.problem is not None:
                return link, {}
            link = replace(link, circle=self._circle(table, unit, collector, link))
            if link.cadence is None or ledger is None:
                return link, {}
            changed = self._changed(ledger, table, link)
        except WaterclockError as error:
            return LinkFacts(upstream_of(table) or table.name, problem=error), {}
        return replace(link, changed={label: fact for label, (_, fact) in changed.items()}), changed

    def _circle(self, table: Table, unit: Unit, collector: LinkedCollector, link: LinkFacts) -> str | None:
        """Name a table of ours that the other project waits for in turn, as far as its files and its ledger tell."""
        known = self._circles.get(table.name)
        if self._own is not None and (known is None or known[0] != link.sequence):
            known = link.sequence, collector.circle(unit, self._own, self._made_of(table.name))
            self._circles[table.name] = known
        return None if known is None else known[1]

    def _made_of(self, name: str) -> frozenset[str]:
        """Return a table of ours and all that is made of it."""
        found = {name}
        while new := {
            table.name
            for table in self._flow.tables.values()
            if table.name not in found and any(read.table in found for read in table.reads)
        }:
            found |= new
        return frozenset(found)

    def _checked(self, table: Table, link: LinkFacts) -> LinkFacts:
        """Refuse to read a table in a way that it is not to be read in."""
        if link.problem is not None or link.cadence is None:
            return link
        is_of_slices = link.mode is Mode.APPEND
        if is_of_slices != is_by_label(table):
            return replace(link, problem=_read_otherwise(table, link, is_of_slices=is_of_slices))
        if (found := misfit(table, link)) is None:
            return link
        why, fix = found
        what = f"windows of {table.name} do not fit those of {link.upstream}"
        return replace(link, problem=WaterclockError("E835", what, where=str(table.place), why=why, fix=fix))

    def _changed(self, ledger: Ledger, table: Table, link: LinkFacts) -> _Changed:
        """Return by label the claim that made it, and what it read and would read now, where the two differ.

        What RETAIN has dropped there is no change. Cost: a read of both ledgers where one has gone on
        """
        unit, collector = self._opened(table)
        recorded = ledger.reads.read_elsewhere(table.name, link.upstream)
        state = link.sequence, hash(tuple(each.claim for each in recorded))
        compared = self._compared.get(table.name)
        if compared is not None and compared[0] == state:
            return compared[1]
        dropped = link.past.dropped_before
        kept = [each for each in recorded if dropped is None or each.low >= dropped]
        contents = collector.contents(unit, [(each.low, each.high) for each in kept]) if kept else ()
        changed = {
            each.label: (each.claim, InputFact(link.upstream, each.low, each.high, each.content, now))
            for each, now in zip(kept, contents, strict=True)
            if now != each.content
        }
        self._compared[table.name] = state, changed
        return changed


def links_of(project: Project, connections: Connections) -> Links:
    """Return the other projects that tables of a project collect."""
    ledger = project.ledger if isinstance(project.ledger, str) else ""
    return Links(project.flow, connections, ProjectPlace(ledger, project.storage, project.root))


def link_errors(project: Project) -> list[WaterclockError]:
    """Return what keeps tables from collecting other projects, each at its table; a server is not asked.

    A project that has not run yet, and one that does not answer now, are no errors: they are waited for.
    """
    links = links_of(project, connections_of(project))
    links.tables = {name: table for name, table in links.tables.items() if _is_at_hand(project, table)}
    found = []
    for name, link in links.look(None).items():
        if link.problem is not None and not link.problem.transient:
            link.problem.where = f"{project.flow.tables[name].place}"
            found.append(link.problem)
    return found


def _is_at_hand(project: Project, table: Table) -> bool:
    """Whether the other project is looked for on this machine, by its folder or its storage."""
    source = table.source
    options = project.flow.connections[source.unit.connection].options if source is not None else {}
    return not any("://" in str(value) and not str(value).startswith("sqlite:") for value in options.values())


def linked_inputs(table: Table, pins: Iterable[tuple[Window, Pin]]) -> dict[datetime, tuple[Input, ...]]:
    """Return what labels of a linked table read, for the audit trail."""
    kind = "slices" if is_by_label(table) else "state"
    return {window.start: (replace(pin.input(pin.table, kind), changes=None),) for window, pin in pins}


def kept_inputs(ledger: Ledger, table: Table, labels: Iterable[datetime]) -> dict[datetime, tuple[Input, ...]]:
    """Return what labels of a linked table have read, where they are made again of the rows that were collected.

    These are still of that moment: what is restated there since is to be seen after it as before.
    """
    if upstream_of(table) is None:
        return {}
    return {label: reads for label in labels if (reads := ledger.reads.inputs(table.name, label))}


def problems(links: Mapping[str, LinkFacts], batches: tuple[Batch, ...]) -> dict[str, tuple[Batch, WaterclockError]]:
    """Return by table what keeps it from reading the other project, with the first batch that is due.

    What passes by itself, such as a server that is away, is waited for.
    """
    found: dict[str, tuple[Batch, WaterclockError]] = {}
    for batch in batches:
        link = links.get(batch.table)
        if link is not None and link.problem is not None and not link.problem.transient:
            found.setdefault(batch.table, (batch, link.problem))
    return found


def _read_otherwise(table: Table, link: LinkFacts, *, is_of_slices: bool) -> WaterclockError:
    why = "is kept by labels, which are read one by one" if is_of_slices else "is one state, and no rows by label"
    return WaterclockError(
        "E834",
        f"{link.upstream} cannot be read so",
        where=str(table.place),
        why=f"it {why}",
        fix="say BY DATA TIME timelabel" if is_of_slices else "leave BY DATA TIME timelabel out",
    )
