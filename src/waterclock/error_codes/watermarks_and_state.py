"""Error codes of watermarks, of reads of past windows, and of stateful Python functions."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

STATE: Mapping[str, Code] = {
    "E255": Code(
        "invalid WATERMARK",
        "WATERMARK needs a column with instants, and the maximum delay of rows behind the newest one. PER names "
        "columns whose values are separate parts, each with its own progress, in the slices of a PARTITIONED table.",
    ),
    "E256": Code(
        "missing WATERMARK",
        "The table u has no WATERMARK clause. WATERMARK(u) and NEXT_WATERMARK(u) are the progress of u before and "
        "after the window of a batch. Declare WATERMARK with its column in the statement that makes u.",
    ),
    "E257": Code(
        "WATERMARK of an unrelated table",
        "The watermark belongs to a table that is not an input of this one, directly or indirectly. A watermark "
        "measures the progress of input rows, so this one has no meaning here. Read the table, or name an input.",
    ),
    "E258": Code(
        "PAST too short",
        "PAST is shorter than the time between rows that the query joins. It must cover that time, one window, and the "
        "delay that a watermark allows. Each match is made when its later row arrives. Otherwise matches would be "
        "missed without an error.",
    ),
    "E259": Code(
        "invalid stateful rule",
        "wc.stateful needs the input table, the table for its state, the key, and the columns of both its tables. It "
        "decorates a function of the key, the rows of the state, the rows of the window, and the window.",
    ),
}
STATE_AT_WORK: Mapping[str, Code] = {
    "E715": Code(
        "unusable watermark column",
        "The rows do not have the column of WATERMARK, or it is not a TIMESTAMP. Columns of files are text until a "
        "type is declared.",
    ),
    "E717": Code(
        "late rows without time or reason",
        "Late rows are found by a TIMESTAMP column, which CLOSE WHEN or WATERMARK names. The column late_reason "
        "contains the reason. The input does not have one of them.",
    ),
    "E716": Code(
        "invalid result of a stateful rule",
        "The function of wc.stateful must return two lists of rows: the state and the output. Each row is a dict of "
        "declared column names, with values of their types.",
    ),
}
