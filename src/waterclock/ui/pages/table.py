"""The page of a table: a summary sentence, rows per batch, columns, neighbours, code and batches."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from waterclock.batches.audit_records import BatchState
from waterclock.dpl.statement_texts import statement_texts
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.forms import entities_of
from waterclock.flow.open_windows import tick_seconds, view_of
from waterclock.operations.description import declared_pairs, describe_columns
from waterclock.operations.display_states import LOUDNESS, State, state_of
from waterclock.operations.first_window_times import first_windows
from waterclock.operations.formatting import (
    count_words,
    local_label,
    number_words,
    page_time,
    seconds_words,
    short_label,
)
from waterclock.operations.freshness import Freshness, freshness
from waterclock.operations.held_results import find_held_result
from waterclock.operations.project_opening import OpenedProject, one_table
from waterclock.planner.label_states import LabelState, label_states
from waterclock.planner.plan import Status
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content, PageQuery, batch_address, quoted_name, table_address
from waterclock.ui.pages.grid import axis_of, cadence_words, fresh_words
from waterclock.ui.pages.history import history
from waterclock.ui.pages.label_rows import describe_label_rows, describe_open_rows
from waterclock.ui.pages.open_windows import LIVE, ticks_of
from waterclock.ui.pages.pauses import describe_pause, list_pauses
from waterclock.ui.pages.table_quality import table_quality
from waterclock.ui.pages.versions import list_versions

TABS = ("overview", "batches", "quality", "code", "history")
_OF_LIVE = 10  # batches on the page that follows a table
_BARS = 60
_LISTED = 200


def table(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the content of a tab of a table's page.

    Cost: a plan of all tables, and four queries of the ledger; for the quality tab as `table_quality`

    Raises E511 for an unknown table, E910 for an unknown tab.
    """
    tab = parameters.values.get("tab", TABS[0])
    if tab not in {*TABS, LIVE}:
        raise WaterclockError("E910", f"a table's page has no {tab}", fix=f"its parts are {', '.join(TABS)}")
    name, _ = one_table(at.flow, f"`{parameters.values['table']}`")
    declared = at.flow.tables[name]
    if tab == LIVE and declared.continuous is None:
        raise _no_open_windows_error(name)
    tabs = (*TABS, LIVE) if declared.continuous is not None else TABS
    plan = at.planner.plan(at.snapshot, at.now)
    found = freshness(at.flow, at.flow.tables, at.snapshot, plan)
    content = (
        _describe_head(declared, found[name])
        | describe_pause(at, name)
        | {"tab": tab, "tabs": [*(_build_tab(name, each) for each in tabs), *_build_form_tab(at, name)]}
    )
    if tab == "code":
        return content | {
            "code": statement_texts(at.flow, at.project.sources)[name],
            "place": str(declared.place),
            "fingerprint": declared.fingerprint,
        }
    if tab == "quality":
        return content | {"quality": table_quality(at, declared)}
    if tab == "history":
        return content | {
            "codes": history(at, declared),
            "pauses": list_pauses(at, name),
            **list_versions(at, declared),
        }
    most = {"batches": _LISTED, LIVE: _OF_LIVE}.get(tab, _BARS)
    states, cells = _read_newest_states(at, declared, most)
    if tab in {"batches", LIVE}:
        listed = [_describe_label(declared, one) for one in reversed(states)]
        return content | {"batches": listed, "view": quoted_name(view_of(name))}
    return (
        content
        | _describe_overview(at, declared, found, states, cells)
        | {"held": describe_label_rows(at, declared, parameters, states)}
    )


def table_ticks(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the open windows of a table with CONTINUOUS, if the tab shows them; on the tab `live` with their rows.

    Cost: as `windows_of_ticks`, and the first rows of a slice.
    """
    tab, name = parameters.values.get("tab", TABS[0]), parameters.values["table"]
    if tab not in {LIVE, "quality"} or name not in at.flow.tables or at.flow.tables[name].continuous is None:
        return {"ticks": {}, "seconds": None, "opened": None}
    rows = describe_open_rows(at, at.flow.tables[name]) if tab == LIVE else None
    return {"ticks": ticks_of(at, [name]), "seconds": tick_seconds(at.flow), "opened": rows}


def _no_open_windows_error(name: str) -> WaterclockError:
    return WaterclockError(
        "E910",
        f"{name} has no page that follows it",
        why="only a table with CONTINUOUS has open windows that ticks fill",
        fix="declare CONTINUOUS; the other pages of the table are updated every few seconds, too",
    )


def _describe_head(declared: Table, fresh: Freshness) -> Content:
    name = declared.name
    return {
        "table": name,
        "layer": name.rpartition(".")[0],
        "name": name.rpartition(".")[2],
        "purpose": declared.about.comment or "",
        "owner": declared.about.owner or "",
        "tags": list(declared.about.tags),
        "cadence": str(declared.cadence),
        "often": cadence_words(declared.cadence) or "day",
        "state": str(fresh.state),
    }


def _build_form_tab(at: OpenedProject, name: str) -> list[Content]:
    """Return the link to the rows of a form, if the table collects one."""
    return [{"name": "edit rows", "address": f"/forms/{quote(name, safe='')}"}] if name in entities_of(at.flow) else []


def _build_tab(name: str, tab: str) -> Content:
    return {"name": tab, "address": table_address(name, "" if tab == TABS[0] else tab)}


def _read_newest_states(
    at: OpenedProject, declared: Table, newest: int
) -> tuple[Sequence[LabelState], Sequence[BatchState]]:
    """Return the newest labels of a table with their states, and their records in the ledger."""
    axis = axis_of(at, [declared], (), newest)
    low, high = declared.cadence.floor(axis.span[0]), declared.cadence.ceil(axis.span[1])
    stored = [] if at.ledger is None else at.ledger.past.grid([declared.name], low, high)
    states = label_states(at.planner, at.snapshot, at.now, stored, (low, high), only=[declared.name])[declared.name]
    return states[-newest:], stored


def _describe_overview(
    at: OpenedProject,
    declared: Table,
    found: dict[str, Freshness],
    states: Sequence[LabelState],
    cells: Sequence[BatchState],
) -> Content:
    usual = at.snapshot.of(declared.name).seconds_per_batch
    rows = [cell.rows for cell in cells if cell.rows is not None]
    return {
        "sentence": _describe_states(at, declared, states),
        "bars": _build_bars(at, declared, states),
        "now": [
            {"name": "Fresh to", "text": fresh_words(declared, found[declared.name], at.now)},
            *([{"name": "Rows", "text": number_words(rows[-1])}] if rows else []),
            *([] if usual is None else [{"name": "Usual", "text": seconds_words(usual)}]),
            {"name": "Next", "text": _describe_next_window(at, declared)},
        ],
        "kind": [
            {"name": "Kind", "text": f"{declared.type} {declared.kind}"},
            {"name": "Mode", "text": str(declared.mode)},
            {"name": "Every", "text": str(declared.cadence)},
            *({"name": name.capitalize(), "text": text} for name, text in declared_pairs(declared)),
        ],
        "columns": [
            {"name": it.name, "type": it.type, "properties": it.properties, "comment": it.comment}
            for it in describe_columns(at, declared)
        ],
        "is_open": declared.columns.is_open,
        "made_from": _describe_neighbours(found, dict.fromkeys(read.table for read in declared.reads)),
        "went_into": _describe_neighbours(found, _find_readers(at.flow, declared.name)),
        "source": "" if declared.source is None else str(declared.source.unit),
        "destination": "" if declared.destination is None else str(declared.destination),
    }


def _find_readers(flow: Flow, name: str) -> dict[str, None]:
    return dict.fromkeys(each.name for each in flow.tables.values() if any(read.table == name for read in each.reads))


def _describe_neighbours(found: dict[str, Freshness], names: dict[str, None]) -> list[Content]:
    return [
        {"table": name, "state": str(found[name].state), "address": table_address(name)}
        for name in names
        if name in found
    ]


def _describe_next_window(at: OpenedProject, declared: Table) -> str:
    """Format the next window that has not ended yet, and when it is due."""
    cadence = declared.cadence
    start = max(cadence.last_due(at.now), first_windows(at, [declared.name])[declared.name].window.start)
    window = cadence.window_of(start)
    return f"{short_label(window.start, cadence, at.now)}, due {page_time(cadence.due_at(window), cadence.zone)}"


def _describe_states(at: OpenedProject, declared: Table, states: Sequence[LabelState]) -> list[Content]:
    """Return sentences about the labels of a table: the most severe states first, then how many are fresh."""
    loud = {State.FAILED, State.HELD, State.BLOCKED, State.EXPIRED, State.STALE, State.PAUSED, State.RUNNING}
    by_state: dict[State, list[LabelState]] = {}
    for one in states:
        by_state.setdefault(state_of(one.status), []).append(one)
    sentences: list[Content] = []
    for state in sorted(by_state, key=LOUDNESS.__getitem__):
        of_state = by_state[state]
        if state not in loud:
            continue
        newest = of_state[-1]
        what = short_label(newest.label, declared.cadence, at.now)
        what = what if len(of_state) == 1 else count_words(len(of_state), "batch", "batches")
        described = str(state) if state is State.FAILED else f"{'is' if len(of_state) == 1 else 'are'} {state}"
        reason = _shorten(newest.reason) if state in {State.FAILED, State.HELD, State.BLOCKED} else ""
        sentences.append({"text": f"{what} {described}", "mark": str(state), "reason": reason})
    well = len(by_state.get(State.OK, ())) + len(by_state.get(State.WARNED, ()))
    due = len(by_state.get(State.DUE, ()))
    if due:
        sentences.append({"text": f"{count_words(due, 'batch is', 'batches are')} due", "mark": None, "reason": ""})
    if well:
        others = "The other " if sentences else "The newest "
        sentences.append(
            {"text": f"{others}{number_words(well)} {'is' if well == 1 else 'are'} fresh", "mark": None, "reason": ""}
        )
    if not sentences:
        sentences.append({"text": "No batch was made yet", "mark": None, "reason": ""})
    return sentences


def _shorten(reason: str) -> str:
    return reason if len(reason) <= 160 else f"{reason[:159]}…"


def _build_bars(at: OpenedProject, declared: Table, states: Sequence[LabelState]) -> Content:
    """Return a bar for each label, with a height by its number of rows. A label without rows has a fixed height.

    A held batch that readers do not see has a height by its sealed rows. Cost: a small file for each held batch.
    """
    rows = {one.label: one.stored.rows for one in states if one.stored is not None and one.stored.rows is not None}
    held = [one for one in states if one.status is Status.HELD and one.label not in rows]
    sealed = {
        one.label: found.rows for one in held if (found := find_held_result(at, declared, one.stored)) is not None
    }
    most = max((*rows.values(), *sealed.values()), default=0) or 1
    bars = []
    for one in states:
        count = rows.get(one.label, sealed.get(one.label))
        words = short_label(one.label, declared.cadence, at.now)
        state = state_of(one.status)
        description = f"{words}: {state}" if count is None else f"{words}: {count_words(count, 'row')}, {state}"
        bars.append(
            {
                "label": label_of(one.label),
                "state": str(state),
                "rows": rows.get(one.label),
                "height": 0.85 if count is None else max(0.02, count / most),
                "words": description,
                "short": words,
                "address": batch_address(declared.name, label_of(one.label)),
            }
        )
    return {"most": most, "each": bars}


def _describe_label(declared: Table, one: LabelState) -> Content:
    stored = one.stored
    return {
        "label": label_of(one.label),
        "words": local_label(one.label, declared.cadence),
        "state": str(state_of(one.status)),
        "reason": _shorten(one.reason) if one.status is not Status.DONE else "",
        "rows": None if stored is None else stored.rows,
        "attempts": 0 if stored is None else stored.attempts,
        "code": "" if stored is None or stored.code is None else stored.code[:8],
        "is_current": stored is None or stored.code in {None, declared.fingerprint},
        "address": batch_address(declared.name, label_of(one.label)),
    }
