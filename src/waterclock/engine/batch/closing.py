"""Closes the books of windows: evaluates CLOSE WHEN conditions, and records the results.

Every run does this before it plans. A condition is evaluated at boundaries: the window ends of the table that UNTIL
reads. One Spark query evaluates many boundaries of many windows: the rows are read once, and each row counts for all
boundaries after it. The ledger keeps the results, so that two runners close a window at the same tick.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.batches.ledger_snapshot import RECOMPUTE, UNCHECKED, Closing, LedgerSnapshot
from waterclock.engine.batch.late_rows import find_newest_late_slices
from waterclock.engine.reads.pin import frame_of, pin
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.engine.spark.queries import build_query_frame, literal_of
from waterclock.engine.spark.user_functions import register_functions
from waterclock.errors import WaterclockError
from waterclock.flow.closings import END, START, Closes, Least
from waterclock.flow.declarations import Read
from waterclock.flow.graph import late_tables
from waterclock.planner.closings import ClosingCandidate, ClosingFacts
from waterclock.planner.input_binding import bind
from waterclock.planner.plan import Batch, BoundRead, ReadScope, Status
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.spark_sql import quote_name
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PAIR, _HOLDS, _BEHIND, _LABEL = "wc_pair", "wc_holds", "wc_behind", "wc_label"


def close_due_books(
    work: RunContext,
    planner: Planner,
    now: datetime,
    request: PlanRequest,
    past: Callable[[], LedgerSnapshot],
    tried: Collection[tuple[str, datetime]] = (),
) -> list[tuple[ClosingFacts, WaterclockError]]:
    """Close the windows whose condition holds at a settled boundary. Return the tables whose condition failed, and why.

    All evaluated boundaries are recorded. `tried` has tables and labels: a table whose oldest open window is in it is
    skipped, because its condition has failed in this run. Cost: one query a round, of at most `closings.MOST_PAIRS`
    boundaries; none if nothing new is settled.
    """
    failed: dict[str, tuple[ClosingFacts, WaterclockError]] = {}
    for books in planner.books(past(), now, request):
        try:
            _reopen_for_late_rows(work, books)
        except WaterclockError as error:
            failed[books.table.name] = (books, error)
    while True:
        found = [(books, books.pairs()) for books in planner.books(past(), now, request)]
        found = [
            (books, pairs)
            for books, pairs in found
            if pairs and books.table.name not in failed and (books.table.name, pairs[0].window.start) not in tried
        ]
        if not found:
            return list(failed.values())
        for books, pairs in found:
            try:
                _check_boundaries(work, books, pairs)
            except WaterclockError as error:
                failed[books.table.name] = (books, error)
                _record_failure(work, books, error)


def _record_failure(work: RunContext, books: ClosingFacts, error: WaterclockError) -> None:
    """Record the error code of a failed condition for the oldest open window. Transient errors are not recorded."""
    window = books.first_open()
    if window is not None and not error.transient:
        found = Closing(reason=UNCHECKED, why=error.code, asked=books.condition_hash)
        known = books.past.closings.get(window.start, Closing())
        if (known.reason, known.why, known.asked) != (found.reason, found.why, found.asked):
            work.ledger.decisions.close_books(books.table.name, [(window.start, found)], who=work.settings.who)


def _reopen_for_late_rows(work: RunContext, books: ClosingFacts) -> None:
    """Reopen windows for which a recompute was requested, up to the newest stored late rows of each."""
    table, asked = books.table, books.past.requested
    labels = [label for label, verb in asked.items() if verb == RECOMPUTE and label in books.past.closings]
    if not labels or not late_tables(work.flow, table.name):
        return
    spark = work.sessions.own()
    try:
        ticks = find_newest_late_slices(work, spark, table, labels)
    except Exception as raised:
        raise to_error(raised, where=table.name) from raised
    finally:
        work.sessions.release(spark)
    if ticks:
        others = late_tables(work.flow, table.name)
        work.ledger.decisions.reopen(
            table.name, ticks, late_tables=others, who=work.settings.who, why="recompute requested"
        )


def _check_boundaries(work: RunContext, books: ClosingFacts, pairs: Sequence[ClosingCandidate]) -> None:
    closes = books.table.closes
    if closes is None:
        raise AssertionError(f"{books.table.name} closes no books")
    answers = _evaluate_condition(work, books, closes, pairs) if closes.is_asked else {}
    closings = books.collect_closings(pairs, {pair: holds for pair, (holds, _) in answers.items()})
    kept = [(window.start, _add_slowest_part(closing, answers, pairs, window.start)) for window, closing in closings]
    others = late_tables(work.flow, books.table.name)
    work.ledger.decisions.close_books(books.table.name, kept, late_tables=others, who=work.settings.who)


def _add_slowest_part(
    closing: Closing,
    answers: Mapping[ClosingCandidate, tuple[bool, str]],
    pairs: Sequence[ClosingCandidate],
    label: datetime,
) -> Closing:
    """Add to the result of an open window the part of its data that was furthest behind at its newest boundary.

    A part is the rows with the same values in the columns of a watermark, such as one device.
    """
    of_label = [pair for pair in pairs if pair.window.start == label and pair in answers]
    is_open = closing.tick is None and of_label
    return replace(closing, behind=answers[of_label[-1]][1]) if is_open else closing


def _evaluate_condition(
    work: RunContext, books: ClosingFacts, closes: Closes, pairs: Sequence[ClosingCandidate]
) -> dict[ClosingCandidate, tuple[bool, str]]:
    """Evaluate the condition for each pair of window and boundary.

    Returns for each whether it holds, and the part of the data that was furthest behind (see `_add_slowest_part`).
    """
    where = f"{books.table.name}@{pairs[0].window.label}"
    spark = work.sessions.own()
    try:
        register_functions(spark, work.root, work.flow, [closes.expression], work.keys)
        for index, read in enumerate(books.open_ended_reads):
            _read_visible_rows(work, spark, books, read, pairs).createOrReplaceTempView(f"wc_seen_{index}")
        tables = [read.table for read in books.open_ended_reads]
        found = build_query_frame(spark, _build_query(closes, tables, pairs), {})
        _require_boolean(closes, found.schema[_HOLDS].dataType.simpleString(), where)
        rows = found.collect()
    except Exception as raised:
        raise to_error(raised, where=where) from raised
    finally:
        work.sessions.release(spark)
    return {pairs[row[_PAIR]]: (row[_HOLDS] is True, row[_BEHIND] or "") for row in rows}


def _require_boolean(closes: Closes, kind: str, where: str) -> None:
    """Raise E263 for a condition that can never be TRUE, such as a number: its windows would stay open."""
    if kind not in {"boolean", "void"}:
        raise WaterclockError(
            "E263",
            f"{closes.text} is {kind.upper()}, not BOOLEAN",
            where=where,
            why="a window is closed where its condition is TRUE",
            fix="compare it, as in watermark(at, device) >= WINDOW_END()",
        )


def _read_visible_rows(
    work: RunContext, spark: SparkSession, books: ClosingFacts, read: Read, pairs: Sequence[ClosingCandidate]
) -> DataFrame:
    """Return the rows before each boundary, with the number of the boundary's pair. Rows are repeated by boundary."""
    from pyspark.sql import functions as F  # noqa: N812

    bounds = [_bind_read(books, read, pair) for pair in pairs]
    hull = replace(bounds[0], low=min(each.low for each in bounds), high=max(each.high for each in bounds))
    batch = Batch(books.table.name, pairs[0].window, Status.READY, "", (hull,))
    pinned = pin(work.ledger, work.lake, work.flow, [batch])[batch.label][0]
    rows = frame_of(spark, work.lake, work.flow, pinned)
    seen = [
        (label_of(piece.label), number)
        for number, each in enumerate(bounds)
        for piece in pinned.slices
        if each.low <= piece.label < each.high
    ]
    numbers = pa.table(
        {
            _LABEL: pa.array([label for label, _ in seen], pa.string()),
            _PAIR: pa.array([number for _, number in seen], pa.int32()),
        }
    )
    by_label = F.broadcast(spark.createDataFrame(numbers))
    return rows.join(by_label, rows[TIMELABEL] == by_label[_LABEL]).drop(_LABEL)


def _bind_read(books: ClosingFacts, read: Read, pair: ClosingCandidate) -> BoundRead:
    bound = bind(books.table, pair.window, books.flow, books.starts, reads=[read], closing=pair.boundary)[0]
    return replace(bound, scope=ReadScope.SLICES)


def _build_query(closes: Closes, tables: Sequence[str], pairs: Sequence[ClosingCandidate]) -> str:
    """Write the query that evaluates all pairs. Its view `wc_seen_n` has the rows of table number n."""
    windows = ", ".join(
        f"({number}, {literal_of(pair.window.start)}, {literal_of(pair.window.end)})"
        for number, pair in enumerate(pairs)
    )
    parts = [f"wc_pairs AS (SELECT * FROM VALUES {windows} AS t({_PAIR}, {START}, {END}))"]
    parts += [_watermark_sql(mark, tables.index(mark.table)) for mark in closes.marks]
    joined = "".join(f" LEFT JOIN wc_of_{mark.name} USING ({_PAIR})" for mark in closes.marks)
    names = "".join(f", {mark.name}" for mark in closes.marks)
    behind = ", ".join(f"CASE WHEN {mark.name} < {END} THEN {mark.name}_of END" for mark in closes.marks if mark.parts)
    part = f"coalesce({behind}, '')" if behind else "''"
    parts.append(f"wc_windows AS (SELECT {_PAIR}, {START}, {END}{names}, {part} AS {_BEHIND} FROM wc_pairs{joined})")
    if not closes.asks_rows:
        return f"WITH {', '.join(parts)} SELECT {_PAIR}, ({closes.expression}) AS {_HOLDS}, {_BEHIND} FROM wc_windows"
    grouped = (
        f"SELECT {_PAIR}, ({closes.expression}) AS {_HOLDS}, {_BEHIND} FROM wc_windows JOIN wc_seen_0 USING ({_PAIR}) "
        f"GROUP BY {_PAIR}, {START}, {END}{names}, {_BEHIND}"
    )
    # a boundary without rows before it has the aggregates of an empty set, and GROUP BY returns no row for it
    of_none = [
        f"SELECT {number} AS {_PAIR}, ({_condition_without_rows(closes, pair)}) AS {_HOLDS}, '' AS {_BEHIND} "
        f"FROM (SELECT * FROM wc_seen_0 WHERE {_PAIR} = {number}) HAVING count(*) = 0"
        for number, pair in enumerate(pairs)
    ]
    return f"WITH {', '.join(parts)} {' UNION ALL '.join([grouped, *of_none])}"


def _condition_without_rows(closes: Closes, pair: ClosingCandidate) -> str:
    """Return the condition with the values for a boundary before which there are no rows."""
    values: dict[str, Any] = {START: pair.window.start, END: pair.window.end}
    sql_by_name = {name: literal_of(value) for name, value in values.items()}
    sql_by_name |= {mark.name: "CAST(NULL AS TIMESTAMP)" for mark in closes.marks}
    return re.sub(r"\bwc_\w+\b", lambda name: sql_by_name.get(name[0], name[0]), closes.expression)


def _watermark_sql(mark: Least, index: int) -> str:
    """Write the SQL for a watermark at each boundary, and for the part of the data that is furthest behind."""
    at, parts = quote_name(mark.column), ", ".join(map(quote_name, mark.parts))
    part = f"to_json(struct({parts}))" if parts else "''"
    return (
        f"wc_of_{mark.name} AS (SELECT {_PAIR}, min(newest) AS {mark.name}, min_by(part, newest) AS {mark.name}_of "
        f"FROM (SELECT {_PAIR}, {part} AS part, max({at}) AS newest FROM wc_seen_{index} WHERE {at} IS NOT NULL "
        f"GROUP BY ALL) GROUP BY {_PAIR})"
    )
