"""Finds done labels that can be made again, and builds the restate requests to record in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from waterclock.batches.ledger_snapshot import FOLLOW, LedgerSnapshot
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import LINKED, Batching, Kind, Mode
from waterclock.flow.graph import late_tables
from waterclock.ledger import ledger_errors
from waterclock.ledger.ledger import Ledger
from waterclock.operations.formatting import count_words
from waterclock.operations.project_opening import OpenedProject, select_batches
from waterclock.selection import Labels
from waterclock.timelabel.label import label_of

LabelsByTable = Mapping[str, tuple[datetime, ...]]
Asking = dict[tuple[str, str], frozenset[datetime]]


def done_labels(at: OpenedProject, selection: str, labels: str | None, most: int | None = None) -> LabelsByTable:
    """Return the done labels of a selection. Raises E510 to E514; E518 for dropped labels, E525 above `most` labels."""
    return _find_done_labels(at, selection, labels, lambda _table, _code: True, most)


def hidden_lines(at: OpenedProject, found: LabelsByTable) -> list[str]:
    """Describe labels whose rows RETAIN hides: they can be made again, but no query shows them."""
    lines = []
    for name, labels in found.items():
        table = at.flow.tables[name]
        newest = at.ledger.reads.newest(name) if at.ledger is not None else None
        if table.retain is None or table.mode is not Mode.APPEND or newest is None:
            continue
        shown = table.cadence.ceil(table.retain.subtract_from(newest.end, table.cadence.zone))
        if hidden := sum(label < shown for label in labels):
            count = count_words(hidden, "label")
            rule = f"RETAIN {table.retain} of {name} hides labels before {label_of(shown)}"
            lines.append(f"{rule}: {count} of these, which only batches may still read")
    return lines


def find_behind_labels(at: OpenedProject, selection: str, labels: str | None) -> LabelsByTable:
    """Return the labels of a selection that are behind: older states whose inputs were restated since."""
    plan = at.planner.plan(at.snapshot, at.now)
    behind = {name: frozenset(of_table) for name, of_table in plan.behind.items()}
    done = done_labels(at, selection, labels)
    return {name: tuple(label for label in done[name] if label in behind.get(name, ())) for name in done}


def build_requests(
    at: OpenedProject, ledger: Ledger, verb: str, found: LabelsByTable, most: int | None = None
) -> tuple[Asking, LedgerSnapshot]:
    """Return the labels to request by (verb, table), and a ledger snapshot in which they count as requested.

    FOLLOW requests are added for the older states that depend on the labels in `found`.

    Raises E525 if more than `most` batches depend on them.
    Cost: a snapshot with all dependent batches, some 50 µs a batch.
    """
    requests = {(verb, name): frozenset(labels) for name, labels in found.items()}
    doubted = sum(len(facts.suspects) for facts in at.snapshot.tables.values())  # counted even if nothing is requested
    snapshot = ledger.reads.snapshot(at.flow, asking=requests, most=most, uncounted=doubted)
    dependents = at.planner.find_dependent_labels(snapshot, at.now, found)
    for name, labels in dependents.items():
        requests[FOLLOW, name] = labels | requests.get((FOLLOW, name), frozenset())
    return requests, snapshot.add_followers(dependents)


def find_taken_late_rows(at: OpenedProject, ledger: Ledger, found: LabelsByTable) -> LabelsByTable:
    """Return the batches of `<table>_late` that may lose rows when closed windows are recomputed, oldest first.

    A recomputed window includes its late rows. Until then they are in `<table>_late`, with labels after the window's
    end.
    """
    affected: dict[str, tuple[datetime, ...]] = {}
    for name, labels in found.items():
        table = at.flow.tables[name]
        if table.closes is not None and labels:
            low = table.cadence.next(min(labels))
            for late in late_tables(at.flow, name):
                affected[late] = tuple(label for label, _ in ledger.past.made_labels(late, low, at.now))
    return {name: labels for name, labels in affected.items() if labels}


def labels_of_older_code(at: OpenedProject, selection: str, labels: str | None) -> LabelsByTable:
    """Return the done labels that ran under other code than the current one."""
    return _find_done_labels(at, selection, labels, lambda table, code: code != table.fingerprint)


def labels_of_sources(at: OpenedProject, selection: str, labels: str | None, most: int | None = None) -> LabelsByTable:
    """Return the done labels of the selected collects. Raises E519 if a source cannot repeat them."""
    found = done_labels(at, selection, labels, most)
    sources = {name: labels for name, labels in found.items() if at.flow.tables[name].kind is Kind.COLLECT}
    if found and not sources:
        raise WaterclockError(
            "E519",
            f"{selection} contains no COLLECT",
            why="recollect reads a source again, and these tables are computed from other tables",
            fix="`waterclock recompute` computes them again from their inputs",
        )
    for name, of_table in sources.items():
        _require_repeatable_source(at, at.flow.tables[name], of_table)
    return sources


def _find_done_labels(
    at: OpenedProject,
    selection: str,
    labels: str | None,
    is_meant: Callable[[Table, str | None], bool],
    most: int | None = None,
) -> LabelsByTable:
    selected, by_table = select_batches(at.flow, [selection], labels)
    starts = at.planner.starts(at.snapshot, at.now)
    found: dict[str, list[datetime]] = {}
    for name in selected.tables:
        table = at.flow.tables[name]
        span = _selected_span(at, table, by_table.get(name), starts[name], is_added=name in selected.added)
        made = () if at.ledger is None or span is None else at.ledger.past.made_labels(name, *span, most=most)
        found[name] = [label for label, code in made if is_meant(table, code)]
        require_at_most(most, sum(map(len, found.values())))
    return {name: tuple(of_table) for name, of_table in found.items()}


def require_at_most(most: int | None, count: int) -> None:
    """Raise E525 if `count` exceeds `most`, the limit for a request of a page. None means no limit."""
    if most is not None and count > most:
        raise ledger_errors.too_many_batches_error(most)


def _selected_span(
    at: OpenedProject, table: Table, labels: Labels | None, start: datetime, *, is_added: bool
) -> tuple[datetime, datetime] | None:
    """Return the selected labels `[low, high)` of a table, or None. `is_added`: no text selects it, see `select`."""
    end, dropped = table.cadence.last_due(at.now), at.snapshot.of(table.name).dropped_before
    if labels is None:
        return (max(start, dropped or start), end) if start < end else None
    low, high = labels.limit_to(table, start, end)
    if is_added:
        return max(low, dropped or low), high
    require_not_dropped(table, low, dropped)
    return low, high


def require_not_dropped(table: Table, low: datetime, dropped: datetime | None) -> None:
    """Raise E518 if labels from `low` on include dropped ones, which are never made again."""
    if dropped is not None and low < dropped:
        raise WaterclockError(
            "E518",
            f"{table.name}@{label_of(low)} cannot be made again",
            where=f"{table.name}@{label_of(low)}",
            why=f"RETAIN has dropped its labels before {label_of(dropped)}",
            fix=f"start at {label_of(dropped)}",
        )


def _require_repeatable_source(at: OpenedProject, table: Table, labels: tuple[datetime, ...]) -> None:
    batching = None if table.source is None else table.source.batching
    if not labels or batching in {Batching.DATA_TIME, Batching.AS_OF, Batching.EACH, *LINKED}:
        return
    where = f"{table.name}@{label_of(labels[0])}"
    if batching is Batching.ARRIVAL_TIME:
        raise WaterclockError(
            "E519",
            f"{table.name} cannot be collected again",
            where=where,
            why="it collects items as they arrive, and sources do not send them again",
            fix=f"recompute reads its archived items again; or exclude it: … except {table.name}",
        )
    if batching is Batching.CHANGES:
        raise WaterclockError(
            "E519",
            f"{table.name} cannot be collected again",
            where=where,
            why="it collects changes, and its source does not keep changes after they were collected",
            fix=(
                "recompute reads the stored changes; OPTIONS (snapshot '…') with a new text takes a new snapshot "
                f"with the next batch; or exclude it: … except {table.name}"
            ),
        )
    newest = table.cadence.previous(table.cadence.last_due(at.now))
    if labels != (newest,):
        raise WaterclockError(
            "E519",
            f"only the newest label of {table.name} can be collected again",
            where=where,
            why="its source has only its current rows, which are the snapshot of the newest label",
            fix=f"recollect {table.name}@{label_of(newest)}; or exclude it: … except {table.name}",
        )
