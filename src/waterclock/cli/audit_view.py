"""What does the ledger know of a batch, and how is it told?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table as Columns
from rich.text import Text

from waterclock.cli.answers import instant_text
from waterclock.cli.labels import (
    bytes_words,
    count_words,
    instant_words,
    label_range,
    local_label,
    local_range,
    number_words,
    seconds_words,
)
from waterclock.cli.look import LOOKS, State, sign
from waterclock.cli.opening import Reading
from waterclock.errors import WaterclockError
from waterclock.flow import Flow, Table
from waterclock.ledger.records import Input
from waterclock.ledger.trail import Attempt, Audit, Link
from waterclock.planner import Status
from waterclock.planner.states import label_states
from waterclock.selection import Labels
from waterclock.timelabel import label_of

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 100
_STATES = {
    "running": State.RUNNING,
    "done": State.OK,
    "failed": State.FAILED,
    "held": State.HELD,
    "skipped": State.SKIPPED,
}


@dataclass(frozen=True, slots=True)
class Found:
    """One batch: its record, its window, and the batches it was made from and into."""

    table: str
    label: datetime
    end: datetime
    audit: Audit
    status: Status
    reason: str
    code_is_current: bool
    up: tuple[Link, ...]
    down: tuple[Link, ...]


def look_up(at: Reading, name: str, labels: Labels | None, *, depth: int | None, last: int) -> Found | list[Audit]:
    """Give one batch, or the newest of a table's where no label or several are meant.

    Raises  E513 where no label of the table is meant, E516 for a batch of which nothing is stored
    """
    table = at.flow.tables[name]
    start = at.planner.starts(at.snapshot, at.now)[name]
    stored = [] if at.ledger is None else at.ledger.grid([name])
    if labels is not None:
        begin = min([start, *(cell.label for cell in stored)])
        low, high = labels.within(table, begin, max(table.cadence.last_due(at.now), begin))
        if table.cadence.next(low) == high:
            return _one(at, table, low, depth)
        stored = [cell for cell in stored if low <= cell.label < high]
    if at.ledger is None or not stored:
        raise WaterclockError(
            "E516",
            f"nothing was made of {name} yet",
            why="the ledger has no batch of it" if labels is None else f"the ledger has none in {labels}",
            fix=f"waterclock plan {name} says what is due",
        )
    return [at.ledger.audit(name, cell.label) for cell in stored[-last:]]


def _one(at: Reading, table: Table, label: datetime, depth: int | None) -> Found:
    end = table.cadence.next(label)
    stored = [] if at.ledger is None else at.ledger.grid([table.name], label, end)
    state = label_states(at.planner, at.snapshot, at.now, stored, (label, end), only=[table.name])[table.name]
    now = state[0] if state else None
    if at.ledger is None or not stored:
        raise WaterclockError(
            "E516",
            f"{table.name}@{label_of(label)} was not made",
            why=f"it is {now.status}{f': {now.reason}' if now.reason else ''}" if now else "it is not due yet",
            fix=f"waterclock plan {table.name}@{label_of(label)} says more",
        )
    audit = at.ledger.audit(table.name, label)
    current = audit.current
    up: Iterable[Link] = ()
    down: Iterable[Link] = ()
    if current is not None:
        up = at.ledger.upstream(table.name, label, depth=depth)
        down = at.ledger.downstream(table.name, label, depth=depth)
    return Found(
        table=table.name,
        label=label,
        end=end,
        audit=audit,
        status=now.status if now else Status.DONE,
        reason=now.reason if now else "",
        code_is_current=current is not None and current.code == table.fingerprint,
        up=tuple(up),
        down=tuple(down),
    )


def print_audit(to: Console, flow: Flow, found: Found) -> None:
    """Print one batch's history for people."""
    table = flow.tables[found.table]
    zone = table.cadence.zone
    state = _look(found.status)
    to.print(
        Text.assemble(
            (f"{found.table}@{label_of(found.label)}", "name"), f"  {local_label(found.label, table.cadence)}"
        ),
        soft_wrap=True,
    )
    line = Text.assemble((f"{sign(state, to)} {found.status}", LOOKS[state].style))
    if found.reason and found.status is not Status.DONE:
        line.append(f": {found.reason}")
    to.print(line, soft_wrap=True)
    pairs = [("window", f"{instant_words(found.label, zone)} to {instant_words(found.end, zone)}")]
    pairs += _made(found, table)
    _print_pairs(to, pairs)
    if found.audit.current is not None:
        _print_inputs(to, flow, found.audit.current.inputs)
    _print_attempts(to, found.audit.attempts)
    _print_events(to, found)
    _print_links(to, flow, "made from", found.up)
    _print_links(to, flow, "went into", found.down)


def print_batches(to: Console, table: Table, audits: Sequence[Audit]) -> None:
    """Print a table's batches, newest last, one a line; a narrow terminal gets the columns that matter most."""
    is_wide = to.width >= _WIDE
    rows = Columns(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    headings = ("label", "", "state", "rows", "took", "made", "by", "tries", "code")
    for heading in headings if is_wide else headings[:6]:
        rows.add_column(heading, justify="right" if heading in {"rows", "took", "tries"} else "left", no_wrap=True)
    for audit in audits:
        cells = _batch_cells(to, table, audit)
        rows.add_row(*(cells if is_wide else cells[:6]))
    to.print(rows)


def _batch_cells(to: Console, table: Table, audit: Audit) -> list[str | Text]:
    state = _STATES.get(audit.cell.status or "", State.DUE)
    made = audit.current.revision if audit.current else None
    attempt = audit.current or (audit.attempts[-1] if audit.attempts else None)
    return [
        local_label(audit.cell.label, table.cadence),
        Text(label_of(audit.cell.label), style="quiet"),
        Text(f"{sign(state, to)} {audit.cell.status or 'due'}", style=LOOKS[state].style),
        number_words(made.rows) if made else "",
        seconds_words(sum(made.timings.values())) if made else "",
        f"{made.recorded_at:%Y-%m-%d %H:%MZ}" if made else "",
        attempt.who if attempt else "",
        str(len(audit.attempts)),
        Text(attempt.code[:8] if attempt else "", style="" if _is_current(attempt, table) else "warn"),
    ]


def audit_json(found: Found) -> dict[str, Any]:
    """Give one batch's history for scripts."""
    return {
        "table": found.table,
        "label": label_of(found.label),
        "start": instant_text(found.label),
        "end": instant_text(found.end),
        "status": found.status.value,
        "reason": found.reason,
        "code_is_current": found.code_is_current,
        **_batch_json(found.audit),
        "events": [
            {"at": instant_text(it.at), "kind": it.kind, "who": it.who, "claim": it.claim, "data": dict(it.data)}
            for it in found.audit.events
        ],
        "made_from": [_link_json(link) for link in found.up],
        "went_into": [_link_json(link) for link in found.down],
    }


def batches_json(name: str, audits: Sequence[Audit]) -> dict[str, Any]:
    """Give a table's batches for scripts, newest last."""
    return {
        "table": name,
        "batches": [{"label": label_of(it.cell.label), "status": it.cell.status, **_batch_json(it)} for it in audits],
    }


def _batch_json(audit: Audit) -> dict[str, Any]:
    return {
        "claim": audit.cell.current_claim,
        "rows": audit.cell.rows,
        "stands_from": instant_text(audit.cell.stands_from),
        "error": audit.cell.error,
        "attempts": [_attempt_json(attempt) for attempt in audit.attempts],
    }


def _attempt_json(attempt: Attempt) -> dict[str, Any]:
    made = attempt.revision
    return {
        "claim": attempt.claim,
        "status": attempt.status,
        "who": attempt.who,
        "runner": attempt.runner,
        "run": attempt.run,
        "code": attempt.code,
        "flow": attempt.flow,
        "now": instant_text(attempt.now),
        "claimed_at": instant_text(attempt.claimed_at),
        "closed_at": instant_text(attempt.closed_at),
        "error": attempt.error,
        "inputs": [
            {
                "table": it.table,
                "read": it.read,
                "kind": it.kind,
                "low": instant_text(it.low),
                "high": instant_text(it.high),
                "location": it.location,
                "version": it.version,
                "content": it.content,
            }
            for it in attempt.inputs
        ],
        "revision": None
        if made is None
        else {
            "version": made.version,
            "rows": made.rows,
            "bytes": made.bytes,
            "digest": made.digest,
            "slice_path": made.slice_path,
            "measures": dict(made.measures),
            "timings": dict(made.timings),
            "source": dict(made.source),
            "recorded_at": instant_text(made.recorded_at),
        },
    }


def _link_json(link: Link) -> dict[str, Any]:
    return {
        "depth": link.depth,
        "table": link.table,
        "label": label_of(link.label),
        "claim": link.claim,
        "rows": link.rows,
        "code": link.code,
    }


def _made(found: Found, table: Table) -> list[tuple[str, str]]:
    """Say what the current revision is and how it came about."""
    current = found.audit.current
    if current is None or current.revision is None:
        return []
    made = current.revision
    spent = ", ".join(f"{step} {seconds:.1f}" for step, seconds in made.timings.items() if seconds >= 0.05)
    pairs = [
        ("holds", f"{count_words(made.rows, 'row')}, {bytes_words(made.bytes)}"),
        ("made", f"{made.recorded_at:%Y-%m-%d %H:%M:%SZ} by {current.who} on {current.runner}"),
        ("took", f"{seconds_words(sum(made.timings.values()))}{f' ({spent})' if spent else ''}"),
        ("now was", instant_words(current.now, table.cadence.zone)),
        ("code", f"{current.code[:12]}, {'as today' if found.code_is_current else 'older than today'}"),
        ("claim", f"{current.claim}, table version {made.version}"),
        ("slice", made.slice_path),
        ("digest", made.digest or "not known yet"),
    ]
    if made.stands_from is not None and made.stands_from < found.label:
        begin = "the beginning" if made.stands_from.year == 1 else f"{made.stands_from:%Y-%m-%d %H:%MZ}"
        pairs.append(("stands", f"for all windows from {begin} on"))
    pairs += [("source", f"{key}: {_short(value)}") for key, value in made.source.items()]
    warnings = made.measures.get("warnings", ())
    pairs += [("warned", str(warning)) for warning in warnings]
    pairs += [(key, str(value)) for key, value in made.measures.items() if key != "warnings" and value]
    return pairs


def _print_inputs(to: Console, flow: Flow, inputs: Sequence[Input]) -> None:
    if not inputs:
        return
    to.print(Text("\nread", style="head"))
    rows = Columns(box=None, pad_edge=True, show_header=False, padding=(0, 2, 0, 0))
    for each in inputs:
        rows.add_row(Text(each.read, style="name"), _span(flow, each), f"version {each.version}")
    to.print(rows)


def _span(flow: Flow, each: Input) -> str:
    if each.low >= each.high:
        return "nothing: it is before START"
    table = flow.tables.get(each.table)
    if table is None:
        return label_range(each.low, each.high)
    if each.kind == "state":
        return f"as of {instant_words(each.high, table.cadence.zone)}"
    last = table.cadence.previous(each.high)
    count = table.cadence.count(each.low, each.high)
    if count == 1:
        return local_label(each.low, table.cadence)
    low, high = local_label(each.low, table.cadence), local_label(last, table.cadence)
    return f"{low} .. {high} ({count_words(count, 'label')})"


def _print_attempts(to: Console, attempts: Sequence[Attempt]) -> None:
    if len(attempts) < 2 and all(attempt.status == "done" for attempt in attempts):
        return
    to.print(Text(f"\n{count_words(len(attempts), 'attempt')}", style="head"))
    for attempt in attempts:
        state = State.OK if attempt.status == "done" else State.FAILED
        if attempt.status == "open":
            state = State.RUNNING
        line = Text.assemble(
            (f"  {sign(state, to)} {attempt.status:<7}", LOOKS[state].style),
            f"claim {attempt.claim}  {attempt.claimed_at:%Y-%m-%d %H:%M:%SZ} by {attempt.who}",
        )
        to.print(line, soft_wrap=True)
        for text in (attempt.error or "").splitlines():
            to.print(Text(f"      {text}", style="quiet"), soft_wrap=True)


_TOLD_ELSEWHERE = frozenset({"claimed", "done", "failed", "lost", "held"})


def _print_events(to: Console, found: Found) -> None:
    """Print what people decided, and what else befell the batch; attempts are told already."""
    others = [event for event in found.audit.events if event.kind not in _TOLD_ELSEWHERE]
    if others:
        to.print(Text("\nevents", style="head"))
    for event in others:
        data = ", ".join(f"{key}: {value}" for key, value in event.data.items())
        to.print(Text(f"  {event.at:%Y-%m-%d %H:%M:%SZ}  {event.kind} by {event.who}  {data}"), soft_wrap=True)


def _print_links(to: Console, flow: Flow, heading: str, links: Sequence[Link]) -> None:
    """Print the batches up or down, those of one table at one depth together."""
    if not links:
        return
    to.print(Text(f"\n{heading} {count_words(len(links), 'batch', 'batches')}", style="head"))
    together: dict[tuple[int, str], list[Link]] = {}
    for link in links:
        together.setdefault((link.depth, link.table), []).append(link)
    for (depth, name), of_table in together.items():
        low, high = min(link.label for link in of_table), max(link.label for link in of_table)
        table = flow.tables.get(name)
        local = local_range(low, high, table.cadence) if table else ""
        if len(of_table) > 1:
            local += f" ({count_words(len(of_table), 'label')})"
        line = Text("  " * depth + f"{name}@{label_range(low, high)}")
        line.append(f"  {local}  ")
        line.append(count_words(sum(link.rows for link in of_table), "row"), style="quiet")
        to.print(line, soft_wrap=True)


def _print_pairs(to: Console, pairs: Sequence[tuple[str, str]]) -> None:
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        to.print(Text.assemble((f"  {name:<{width}}  ", "quiet"), value), soft_wrap=True)


def _look(status: Status) -> State:
    from waterclock.cli.look import state_of

    return state_of(status)


def _is_current(attempt: Attempt | None, table: Table) -> bool:
    return attempt is None or attempt.code == table.fingerprint


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        shown = ", ".join(_short(item) for item in value[:3])
        return f"{shown}, and {len(value) - 3} more" if len(value) > 3 else shown
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(item)}" for key, item in value.items())
    return str(value)
