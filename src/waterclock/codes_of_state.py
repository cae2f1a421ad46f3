"""Error codes of state carried from window to window: watermarks, reads of past windows, rules in Python."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

STATE: Mapping[str, Code] = {
    "E255": Code(
        "a watermark of no time",
        "WATERMARK names a column that holds instants, and says how far behind the newest of them rows may come. PER "
        "names columns whose values are parts that are heard apart, in the slices of a PARTITIONED table.",
    ),
    "E256": Code(
        "no watermark",
        "WATERMARK(u) and NEXT_WATERMARK(u) are how far u had come before a batch's window and after it. Where u is "
        "made, a clause says by which column.",
    ),
    "E257": Code(
        "a watermark of other rows",
        "A watermark tells how far the rows have come that a batch is made of. That of a table which is none of those "
        "that it is made of, directly or through others, says nothing of them.",
    ),
    "E258": Code(
        "a PAST that is too short",
        "Rows are brought together that may lie so far apart in time, each match when its later row has come. What is "
        "read back is at least that bound, one window, and as much as a watermark lets rows be late; else matches are "
        "missed, and nobody would know.",
    ),
    "E259": Code(
        "a rule that keeps state, said wrongly",
        "wc.stateful names the table whose rows it takes, the table that keeps its state, the key, and the columns of "
        "both its tables; below it stands a function of the key, the state's rows, the window's rows and the window.",
    ),
}
STATE_AT_WORK: Mapping[str, Code] = {
    "E715": Code(
        "no time to tell a watermark by",
        "The column that WATERMARK names is not among those that came, or holds no TIMESTAMP. A file's columns are "
        "text until a type is declared.",
    ),
    "E717": Code(
        "late rows that cannot be told",
        "Which rows are late is told by the time of a row, a TIMESTAMP, which CLOSE WHEN or WATERMARK names. Why is "
        "told by the column late_reason, which what is read has not.",
    ),
    "E716": Code(
        "a rule that gave other columns",
        "The function below wc.stateful gives two lists of rows, those of the state and those that come out; each row "
        "is a dict whose names are columns that were declared, with values of their types.",
    ),
}
