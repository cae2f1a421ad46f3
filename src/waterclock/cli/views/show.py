"""Prints one table: its declaration, its status and some of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table as Columns
from rich.text import Text

from waterclock.batches.ledger_snapshot import Pause
from waterclock.batches.records import Slice
from waterclock.batches.schemas import SchemaVersion, Side
from waterclock.cli.views.lineage import kind_words
from waterclock.cli.views.theme import LOOKS, console, state_character
from waterclock.cli.views.timeliness import print_deadlines
from waterclock.flow.declarations import Table
from waterclock.operations.closings import OpenBooks, open_books
from waterclock.operations.deadlines import NO_DEADLINES, Deadlines, deadlines
from waterclock.operations.description import ColumnDescription, deadline_text, declared_pairs, describe_columns
from waterclock.operations.display_states import State, state_of
from waterclock.operations.first_window_times import FirstWindow, first_windows
from waterclock.operations.formatting import count_words, instant_words, local_label
from waterclock.operations.offline_status import OfflineTableStatus, list_offline_states
from waterclock.operations.open_windows import OpenWindows, open_windows
from waterclock.operations.project_opening import OpenedProject, one_table, open_read_only
from waterclock.operations.retained_logs import TableLog, list_held_logs, log_words
from waterclock.operations.schema_versions import OF_SIDE, change_words, list_schema_changes, versions_json
from waterclock.planner.plan import Status
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from waterclock.json_models.tables import ShowAnswer
    from waterclock.operations.query_results import ZonedQueryResult


@dataclass(frozen=True, slots=True)
class TableDescription:
    """The description of a table: its declaration, its done and due batches, and some rows if requested."""

    table: Table
    columns: tuple[ColumnDescription, ...]
    is_open: bool
    first: FirstWindow
    newest: Slice | None
    labels: int
    rows: int
    due: dict[str, int]
    left_out: int
    paused: Pause | None
    open: OpenBooks | None
    open_windows: OpenWindows | None
    sample: ZonedQueryResult | None
    schemas: tuple[SchemaVersion, ...] = ()
    deadlines: Deadlines = NO_DEADLINES
    offline: OfflineTableStatus | None = None
    held: TableLog | None = None

    def to_answer(self) -> ShowAnswer:
        """Build the JSON answer with the description. Its `sample` has the form of `query --json`."""
        from waterclock.json_models.tables import ShowAnswer

        table = self.table
        return ShowAnswer.build(
            self,
            table=table.name,
            kind=table.kind,
            type=table.type,
            mode=table.mode,
            cadence=table.cadence,
            place=table.place,
            comment=table.about.comment,
            owner=table.about.owner,
            tags=table.about.tags,
            reads=table.reads,
            choices=[{"choice": str(it), "reads": it.reads} for it in table.choices],
            newest_label=self.newest.label if self.newest else None,
            newest_end=self.newest.end if self.newest else None,
            sample=None if self.sample is None else self.sample.to_json(),
            schemas=versions_json(self.schemas),
            deadline=deadline_text(table) or None,
            runtime=None if table.runtime is None else str(table.runtime),
            deadlines=self.deadlines.found,
            offline=None if self.offline is None else self.offline.to_answer(),
            kept_at_source=self.held,
        )


def describe_table(folder: Path, env: str | None, text: str, rows: int) -> TableDescription:
    """Collect the description of a table. Starts Spark only if rows are requested and exist. Raises E511, E515."""
    with open_read_only(folder, env, None) as at:
        name, _ = one_table(at.flow, text)
        found = _describe_table(at, at.flow.tables[name])
    if rows and found.newest is not None and found.table.destination is None:
        from waterclock.operations.query_results import some_rows

        return replace(found, sample=some_rows(folder, env, name, rows))
    return found


def print_described(found: TableDescription) -> None:
    """Print a table's description."""
    to = console()
    table = found.table
    to.print(Text.assemble((table.name, "name"), f"  {kind_words(table)}"), soft_wrap=True)
    if table.about.comment:
        to.print(Text(table.about.comment))
    to.print()
    pairs = [*declared_pairs(table), *_format_contents(found)]
    pairs += [] if found.open_windows is None else [("open windows", found.open_windows.words())]
    if found.offline is not None:
        lines = [found.offline.words(), *found.offline.span_lines()]
        pairs += [("offline" if at == 0 else "", line) for at, line in enumerate(lines)]
    pairs += [] if found.held is None or found.held.at is None else [("log", log_words(found.held))]
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        to.print(Text.assemble((f"  {name:<{width}}  ", "quiet"), value), soft_wrap=True)
    for status, count in found.due.items():
        state = state_of(Status(status))
        to.print(
            Text(f"  {state_character(state, to)} {count_words(count, 'label')} {status}", style=LOOKS[state].word)
        )
    print_deadlines(to, found.deadlines, indent="  ")
    for line in found.open.lines() if found.open is not None else ():
        to.print(Text(f"  {line}", style="quiet"), soft_wrap=True)
    if found.paused is not None:
        look = LOOKS[State.PAUSED]
        text = found.paused.words(table.cadence.zone)
        to.print(Text.assemble((f"  {state_character(State.PAUSED, to)} ", look.style), text), soft_wrap=True)
    if found.left_out:
        to.print(Text(f"  and {count_words(found.left_out, 'label')} more, left for later runs", style="quiet"))
    to.print()
    _print_columns(found)
    _print_versions(found)
    if found.sample is not None and found.newest is not None:
        from waterclock.cli.views.query import print_answer

        to.print()
        label = local_label(found.newest.label, table.cadence)
        to.print(
            Text(
                f"some rows of {label}" if table.is_partitioned else f"some rows as of the end of {label}", style="head"
            )
        )
        print_answer(found.sample, to)


def _describe_table(at: OpenedProject, table: Table) -> TableDescription:
    plan = at.planner.plan(at.snapshot, at.now, PlanRequest(only=[table.name]))
    due: dict[str, int] = {}
    for batch in plan.batches:
        due[batch.status.value] = due.get(batch.status.value, 0) + 1
    newest, labels, rows = None, 0, 0
    if at.ledger is not None and table.name in at.snapshot.tables:
        newest = at.ledger.reads.newest(table.name)
        labels, rows = at.ledger.past.amount(table.name)
    return TableDescription(
        table=table,
        columns=describe_columns(at, table),
        is_open=table.columns.is_open,
        first=first_windows(at, [table.name])[table.name],
        newest=newest,
        labels=labels,
        rows=rows,
        due=due,
        left_out=plan.left_out.get(table.name, 0),
        paused=at.snapshot.pause_of(table.name),
        open=open_books(plan, at.flow).get(table.name),
        open_windows=open_windows(at, [table.name]).get(table.name),
        sample=None,
        schemas=() if at.ledger is None else at.ledger.reads.schemas(table.name),
        deadlines=deadlines(at, [table.name]),
        offline=next(iter(list_offline_states(at, [table.name])), None),
        held=next(iter(list_held_logs(at, [table.name])), None),
    )


def _print_versions(found: TableDescription) -> None:
    """Print how the columns of the source and of the table changed, or nothing if they never did."""
    to = console()
    for side in Side:
        versions = list_schema_changes(found.schemas, side)
        if len(versions) < 2:
            continue
        to.print(Text(f"\n{OF_SIDE[side]}", style="head"))
        for version, change in versions:
            label = local_label(version.label, found.table.cadence)
            to.print(Text(f"  {version.number}  since {label}  {change_words(version, change)}"), soft_wrap=True)


def _format_contents(found: TableDescription) -> list[tuple[str, str]]:
    if found.newest is None:
        return [("holds", "nothing yet"), ("first", f"window {found.first.words()}")]
    zone = found.table.cadence.zone
    total = count_words(found.rows, "row")
    label = local_label(found.newest.label, found.table.cadence)
    return [
        ("holds", f"{count_words(found.labels, 'label')}, {total} made in total"),
        ("newest", f"{label} ({label_of(found.newest.label)}), fresh to {instant_words(found.newest.end, zone)}"),
    ]


def _print_columns(found: TableDescription) -> None:
    to = console()
    if not found.columns:
        to.print(Text("its columns are known after its first batch", style="quiet"))
        return
    rows = Columns(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="quiet")
    rows.add_column("column", no_wrap=True)
    rows.add_column("type", no_wrap=True)
    rows.add_column("", overflow="fold")
    rows.add_column("", overflow="fold", style="quiet")
    for column in found.columns:
        rows.add_row(Text(column.name), Text(column.type), Text(column.properties), Text(column.comment))
    if found.is_open and found.newest is None:
        rows.add_row(Text("*"), "", "", Text("and all other columns"))
    to.print(rows)
