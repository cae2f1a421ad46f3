"""Prints the history of a batch and lists the batches of a table, fitted to the width of the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table as Columns
from rich.text import Text

from waterclock.batches.audit_records import Attempt, Audit, Link, PauseEvent
from waterclock.batches.ledger_snapshot import describe_missing_inputs, parse_missing_inputs
from waterclock.batches.records import INPUTS_FOUND, QUARANTINED, WARNINGS, Input, warnings_of
from waterclock.batches.schemas import SCHEMA
from waterclock.batches.skew import SKEW, skew_words
from waterclock.cli.views.theme import LOOKS, state_character
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.measures import MEASURED, OFFLINE, PASSED_OVER
from waterclock.operations.audit_lookup import AuditTarget, BatchList
from waterclock.operations.closings import books_words
from waterclock.operations.display_states import State, state_of
from waterclock.operations.formatting import (
    bytes_words,
    count_words,
    instant_words,
    label_range,
    local_label,
    local_range,
    number_words,
    seconds_words,
)
from waterclock.operations.held_batches import retry_words
from waterclock.operations.lookback_report import lookback_lines
from waterclock.operations.measure_formatting import measured_lines
from waterclock.operations.schema_versions import batch_words
from waterclock.planner.label_states import LabelState
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from rich.console import Console

_HEADINGS = ("label", "", "state", "rows", "took", "made", "by", "tries", "code")
_TO_THE_RIGHT = frozenset({"rows", "took", "tries"})
_LEAST_FIRST = (7, 8, 6, 4, 5, 1)  # the columns in the order in which a narrow terminal omits them
_GAP = 2
LOOKED, CHANGED = "looked", "changed"  # the keys written by `engine.collect.change_scans`
_MOST_ITEMS = 3
_MOST_PAUSES = 20
_STATES = {
    "running": State.RUNNING,
    "done": State.OK,
    "failed": State.FAILED,
    "held": State.HELD,
    "skipped": State.SKIPPED,
}


def print_audit(to: Console, flow: Flow, found: AuditTarget) -> None:
    """Print the history of one batch."""
    table = flow.tables[found.table]
    zone = table.cadence.zone
    state = state_of(found.status)
    to.print(
        Text.assemble(
            (f"{found.table}@{label_of(found.label)}", "name"), f"  {local_label(found.label, table.cadence)}"
        ),
        soft_wrap=True,
    )
    line = Text.assemble((f"{state_character(state, to)} {found.status}", LOOKS[state].word))
    if found.reason:
        line.append(f": {found.reason}")
    to.print(line, soft_wrap=True)
    pairs = [("window", f"{instant_words(found.label, zone)} to {instant_words(found.end, zone)}")]
    pairs += [] if found.closing is None else [("books", books_words(found.closing, table.cadence.zone))]
    pairs += [*_describe_held_slice(found), *_describe_revision(found, table)]
    _print_pairs(to, pairs)
    if found.audit.current is not None:
        _print_inputs(to, flow, found.audit.current.inputs)
    _print_attempts(to, found.audit)
    _print_events(to, found)
    _print_links(to, flow, "made from", found.up, "replaced since")
    _print_links(to, flow, "went into", found.down, "made from a revision that was replaced since")


def print_batches(to: Console, table: Table, listed: BatchList) -> None:
    """Print a table's batches, one per line, newest last. A narrow terminal shows the most important columns, uncut."""
    lines = [_build_batch_cells(to, table, audit, listed.states.get(audit.cell.label)) for audit in listed.audits]
    shown = _select_fitting_columns(to.width, lines)
    rows = Columns(box=None, pad_edge=False, header_style="quiet", padding=(0, _GAP, 0, 0))
    for at in shown:
        heading = _HEADINGS[at]
        rows.add_column(heading, justify="right" if heading in _TO_THE_RIGHT else "left", no_wrap=True)
    for cells in lines:
        rows.add_row(*(cells[at] for at in shown))
    to.print(rows)
    _print_pauses(to, listed.pauses)


def _print_pauses(to: Console, pauses: Sequence[PauseEvent]) -> None:
    """Print when a table was paused and resumed, newest last."""
    if pauses:
        to.print(Text("\npauses", style="head"))
    for one in pauses[-_MOST_PAUSES:]:
        what = f"all {one.kind}" if one.is_of_all else one.kind
        why = f": {one.why}" if one.why else ""
        to.print(Text(f"  {one.at:%Y-%m-%d %H:%M:%SZ}  {what} by {one.who}{why}"), soft_wrap=True)


def _select_fitting_columns(width: int, lines: Sequence[Sequence[str | Text]]) -> list[int]:
    """Return the indexes of the columns that fit in `width`. The least important ones are omitted first."""
    widths = [max(len(heading), *(len(cells[at]) for cells in lines)) for at, heading in enumerate(_HEADINGS)]
    shown = list(range(len(_HEADINGS)))
    for at in _LEAST_FIRST:
        if sum(widths[each] + _GAP for each in shown) <= width:
            break
        shown.remove(at)
    return shown


def _build_batch_cells(to: Console, table: Table, audit: Audit, now: LabelState | None) -> list[str | Text]:
    state = _STATES.get(audit.cell.status or "", State.DUE)
    word = audit.cell.status or "due"
    if now is not None:
        state, word = state_of(now.status), now.status.value
    made = audit.current.revision if audit.current else None
    attempt = audit.current or (audit.attempts[-1] if audit.attempts else None)
    return [
        local_label(audit.cell.label, table.cadence),
        Text(label_of(audit.cell.label), style="quiet"),
        Text(f"{state_character(state, to)} {word}", style=LOOKS[state].word),
        number_words(made.rows) if made else "",
        seconds_words(sum(made.timings.values())) if made else "",
        f"{made.recorded_at:%Y-%m-%d %H:%MZ}" if made else "",
        attempt.who if attempt else "",
        str(len(audit.attempts)),
        Text(attempt.code[:8] if attempt else "", style="" if _is_current(attempt, table) else "warn"),
    ]


def _describe_held_slice(found: AuditTarget) -> list[tuple[str, str]]:
    """Return names and texts about the sealed and held slice: its size, its files and the counts of its rules."""
    held = found.held
    if held is None:
        return []
    until = f": {retry_words(found.table, label_of(found.label))}" if found.is_outdated else " until released"
    return [
        ("held back", f"{count_words(held.rows, 'row')}, {bytes_words(held.bytes)}, not visible{until}"),
        ("its files", f"{found.stage}/{held.slice_path}"),
        *_format_measures(held.measures),
    ]


def _describe_revision(found: AuditTarget, table: Table) -> list[tuple[str, str]]:
    """Return names and texts about the current revision and how it was made; empty if there is none."""
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
        ("claim", f"{current.claim}, table version {made.version}" if made.version >= 0 else str(current.claim)),
        ("slice", made.slice_path),
        ("digest", made.digest or "not known yet"),
    ]
    if made.stands_from is not None and made.stands_from < found.label:
        begin = "the beginning" if made.stands_from.year == 1 else f"{made.stands_from:%Y-%m-%d %H:%MZ}"
        pairs.append(("covers", f"all windows from {begin} on"))
    pairs += [("made by", str(made.source["choice"]))] if "choice" in made.source else []
    pairs += (
        [("partial", describe_missing_inputs(parse_missing_inputs(made.source["missing"])))]
        if "missing" in made.source
        else []
    )
    words = batch_words(found.schemas, current.claim)
    pairs += [("columns" if at == 0 else "", line) for at, line in enumerate(words)]
    others = {key: value for key, value in made.source.items() if key not in {"choice", "missing", "closing", SCHEMA}}
    pairs += [pair for key, value in others.items() for pair in _source_pairs(key, value)]
    return pairs + _format_measures(made.measures)


def _format_measures(measures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and texts for the warnings and counts of a batch's rules, and for its measures."""
    shown_separately = {WARNINGS, MEASURED, OFFLINE, PASSED_OVER, INPUTS_FOUND, SKEW}
    pairs = [("warned", warning) for warning in warnings_of(measures)]
    for name, counts in measures.get(INPUTS_FOUND, {}).items():
        pairs += [
            (f"of {name}" if key == "in" else "", f"{key} {_format_measure(value)}")
            for key, value in counts.items()
            if value or key == "in"
        ]
    pairs += [(key, _format_measure(value)) for key, value in measures.items() if key not in shown_separately and value]
    pairs += [("skew", skew)] if (skew := skew_words(measures)) else []
    pairs += [(PASSED_OVER, str(rule)) for rule in measures.get(PASSED_OVER, ())]
    pairs += [("measured" if at == 0 else "", line) for at, line in enumerate(measured_lines(measures))]
    return pairs


def _format_measure(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return ", ".join(f"{name}: {of}" for name, of in value.items()) if isinstance(value, Mapping) else str(value)


def _print_inputs(to: Console, flow: Flow, inputs: Sequence[Input]) -> None:
    if not inputs:
        return
    to.print(Text("\nread", style="head"))
    rows = Columns(box=None, pad_edge=True, show_header=False, padding=(0, _GAP, 0, 0))
    for is_whole in (True, False, True):
        rows.add_column(no_wrap=is_whole)
    for each in inputs:
        rows.add_row(Text(each.read, style="name"), _span_words(flow, each), f"version {each.version}")
    to.print(rows)


def _span_words(flow: Flow, each: Input) -> str:
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


def _print_attempts(to: Console, audit: Audit) -> None:
    attempts = audit.attempts
    if len(attempts) < 2 and all(attempt.status == "done" for attempt in attempts):
        return
    to.print(Text(f"\n{count_words(len(attempts), 'attempt')}", style="head"))
    for attempt in attempts:
        state = State.OK if attempt.status == "done" else State.FAILED
        state = {"open": State.RUNNING, "held": State.HELD}.get(attempt.status, state)
        line = Text.assemble(
            (f"  {state_character(state, to)} {attempt.status:<7}", LOOKS[state].word),
            f"claim {attempt.claim}  {attempt.claimed_at:%Y-%m-%d %H:%M:%SZ} by {attempt.who}",
        )
        if attempt.status == "done":
            line.append("  current" if attempt == audit.current else "  replaced since", "quiet")
        to.print(line, soft_wrap=True)
        if (
            attempt.revision is not None
            and attempt != audit.current
            and (counts := _format_removed_rows(attempt.revision.measures))
        ):
            to.print(Text(f"      {counts}", style="quiet"), soft_wrap=True)
        for text in (attempt.error or "").splitlines():
            to.print(Text(f"      {text}", style="quiet"), soft_wrap=True)


def _format_removed_rows(measures: Mapping[str, Any]) -> str:
    """Format the rows that rules removed from a replaced revision, or "" if they removed none."""
    if not any(measures.get(key) for key in (QUARANTINED, "dropped")):
        return ""
    return "; ".join(f"{key}: {_format_measure(measures[key])}" for key in _RULE_COUNTS if measures.get(key))


_RULE_COUNTS = ("in", QUARANTINED, "dropped", "broken")
_PRINTED_ELSEWHERE = frozenset({"claimed", "done", "failed", "lost", "held"})


def _print_events(to: Console, found: AuditTarget) -> None:
    """Print decisions of users and other events of the batch, except attempts, which are printed separately."""
    others = [event for event in found.audit.events if event.kind not in _PRINTED_ELSEWHERE]
    if others:
        to.print(Text("\nevents", style="head"))
    for event in others:
        data = ", ".join(f"{key}: {value}" for key, value in event.data.items())
        to.print(Text(f"  {event.at:%Y-%m-%d %H:%M:%SZ}  {event.kind} by {event.who}  {data}"), soft_wrap=True)


def _print_links(to: Console, flow: Flow, heading: str, links: Sequence[Link], replaced: str = "") -> None:
    """Print upstream or downstream batches, grouped by table and depth. `replaced` is the note at replaced ones."""
    if not links:
        return
    to.print(Text(f"\n{heading} {count_words(len(links), 'batch', 'batches')}", style="head"))
    together: dict[tuple[int, str, bool], list[Link]] = {}
    for link in links:
        together.setdefault((link.depth, link.table, link.is_replaced), []).append(link)
    for (depth, name, is_replaced), of_table in together.items():
        low, high = min(link.label for link in of_table), max(link.label for link in of_table)
        table = flow.tables.get(name)
        local = local_range(low, high, table.cadence) if table else ""
        if len(of_table) > 1:
            local += f" ({count_words(len(of_table), 'label')})"
        line = _link_line(depth, f"{name}@{label_range(low, high)}", local, of_table)
        if to.is_terminal and line.cell_len > to.width and local:
            line = _link_line(depth, name, local, of_table)
        if is_replaced:
            line.append(f"  {state_character(State.STALE, to)} {replaced}", style=LOOKS[State.STALE].style)
        to.print(line, soft_wrap=True)


def _link_line(depth: int, name: str, local: str, links: Sequence[Link]) -> Text:
    rows = count_words(sum(link.rows for link in links), "row")
    return Text.assemble("  " * depth, f"{name}  {local}  ", (rows, "quiet"))


def _print_pairs(to: Console, pairs: Sequence[tuple[str, str]]) -> None:
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        to.print(Text.assemble((f"  {name:<{width}}  ", "quiet"), value), soft_wrap=True)


def _is_current(attempt: Attempt | None, table: Table) -> bool:
    return attempt is None or attempt.code == table.fingerprint


def _source_pairs(key: str, value: Any) -> list[tuple[str, str]]:
    """Return names and texts for an entry of a batch's source notes. A list of items has a pair for each item."""
    if key == LOOKED:
        return [("looked" if at == 0 else "", line) for at, line in enumerate(lookback_lines(value))]
    if key == CHANGED:
        return [("restated", f"its source had changed: {value}")]
    if not isinstance(value, list | tuple) or not all(isinstance(item, dict) and "name" in item for item in value):
        return [("source", f"{key}: {_shorten(value)}")]
    shown = [("source", _item_words(item)) for item in value[:_MOST_ITEMS]]
    more = len(value) - _MOST_ITEMS
    return [*shown, ("", f"and {count_words(more, 'item')} more")] if more > 0 else shown


def _item_words(item: Mapping[str, Any]) -> str:
    if "positions" in item:
        return _range_words(item["positions"])
    return f"{item['name']} ({bytes_words(item['size'])})" if "size" in item else str(item["name"])


def _range_words(kept: Mapping[str, Any]) -> str:
    """Format the log positions that a label owns, by partition, and those that the log no longer had."""
    spans = [f"{part}: {low} to {high}" for part, (low, high) in kept["parts"].items() if low != high]
    gone = [f"{part}: {low} to {high}" for part, (low, high) in kept.get("gone", {}).items()]
    return f"{kept['of']}, {_shorten(spans) or 'nothing'}" + (f"; without {_shorten(gone)}" if gone else "")


def _shorten(value: Any) -> str:
    if isinstance(value, list | tuple):
        shown = ", ".join(_shorten(item) for item in value[:_MOST_ITEMS])
        return f"{shown}, and {len(value) - _MOST_ITEMS} more" if len(value) > _MOST_ITEMS else shown
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shorten(item)}" for key, item in value.items())
    return str(value)
