"""Error codes of closing the books of windows."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

CLOSINGS: Mapping[str, Code] = {
    "E261": Code(
        "CLOSE WHEN without UNTIL",
        "The table has no windows of its own, or no read UNTIL(u, d), so it has no books to close. CLOSE WHEN "
        "determines how far the windows of a PARTITIONED transform read UNTIL(u, d). The slices of u contain rows of "
        "other windows too.",
    ),
    "E262": Code(
        "CLOSE WHEN with different cadences",
        "The tables that are read UNTIL have different window boundaries. Books are closed at a boundary of these "
        "tables, so all of them need the same EVERY and ZONE.",
    ),
    "E263": Code(
        "invalid CLOSE WHEN condition",
        "The condition uses an expression that is not supported. It is Spark SQL over aggregates of the rows that "
        "UNTIL reads. It can use WINDOW_START(), WINDOW_END(), values of the project and watermark(column, part, ...). "
        "This function returns the greatest value of the column in the part that is furthest behind. If several tables "
        "are read UNTIL, the condition can contain only watermarks, such as watermark(raw.clicks.at).",
    ),
    "E264": Code(
        "unsatisfiable CLOSE WHEN condition",
        "The condition can never be TRUE, so no window would be closed. NULL is not TRUE.",
    ),
    "E265": Code(
        "closed_by_hand() without effect",
        "closed_by_hand() has no effect at this place. It allows `waterclock close` to close a window regardless of "
        "the remaining condition. It must be the whole condition or one side of an OR.",
    ),
    "E266": Code(
        "manual close not possible",
        "`waterclock close TABLE@LABEL` cannot close this window. The condition of CLOSE WHEN must contain "
        "closed_by_hand(), the window must have ended, and the preceding windows must be closed. A window can be "
        "closed once.",
    ),
    "E268": Code(
        "open windows not supported",
        "The table cannot have open windows. OPTIONS (open_windows 'kept') creates a table next to one with CLOSE "
        "WHEN, with the windows that have started and are not closed. They are made from the rows so far, so their "
        "inputs must not wait for closed windows. The column names window_label and is_closed are reserved there.",
    ),
    "E269": Code(
        "batch that reads open windows",
        "A batch cannot read `spd_<table>` or `<table>_view`, which are for queries and notebooks. Batches read "
        "complete windows. With open windows, the batch would have to run again at each boundary. Read the table "
        "itself.",
    ),
    "E389": Code(
        "CONTINUOUS not possible",
        "The table cannot have its open windows computed every few seconds. The time is at least a second and shorter "
        "than the window. A transform with CONTINUOUS reads a table that has it, by its name or by PAST. A table with "
        "CLOSE WHEN has OPTIONS (open_windows 'kept') instead. The column name is_closed is reserved.",
    ),
    "E370": Code(
        "MAX LATENESS without CLOSE WHEN",
        "MAX LATENESS is the time during which late rows reopen a window whose books CLOSE WHEN closed. Windows "
        "without CLOSE WHEN run again whenever their inputs change, so the clause has no effect here.",
    ),
    "E371": Code(
        "MAX LATENESS without a usable time",
        "Late rows cannot be detected or cannot reopen their windows. They are detected by the time column of "
        "watermark() in CLOSE WHEN, or of the WATERMARK of the input. Reopened windows run again, which ON RESTATE "
        "REPORT forbids.",
    ),
}
