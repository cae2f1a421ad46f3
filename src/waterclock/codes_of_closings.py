"""Error codes of closing the books of windows."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

CLOSINGS: Mapping[str, Code] = {
    "E261": Code(
        "CLOSE WHEN without books to close",
        "CLOSE WHEN says up to where the windows of a PARTITIONED transform read UNTIL(u, d), whose slices hold "
        "rows of other windows too. A table that has no such read, or no windows of its own, has nothing to close.",
    ),
    "E262": Code(
        "CLOSE WHEN of several cadences",
        "Books are closed at a boundary of what is read, so all that is read UNTIL has the same ones.",
    ),
    "E263": Code(
        "a condition of CLOSE WHEN that cannot be asked",
        "It is Spark SQL over aggregates of the rows that UNTIL reads, WINDOW_START(), WINDOW_END(), values of the "
        "project and watermark(column, part, ...): the greatest value of a column, of the part that is furthest "
        "behind. Where several tables are read UNTIL it holds watermarks alone, as in watermark(raw.clicks.at).",
    ),
    "E264": Code(
        "a condition that never holds",
        "A window whose condition is never TRUE is never closed. NULL is not TRUE.",
    ),
    "E265": Code(
        "closed_by_hand() where it decides nothing",
        "closed_by_hand() lets `waterclock close` close a window whatever else the condition says, so it is the whole "
        "condition or one side of an OR.",
    ),
    "E266": Code(
        "a window that cannot be closed by hand",
        "`waterclock close TABLE@LABEL` closes the books of a window that has ended, where the condition of CLOSE WHEN "
        "has closed_by_hand(), and those of the windows before it are closed. It is done once.",
    ),
    "E268": Code(
        "open windows that cannot be kept",
        "OPTIONS (open_windows 'kept') makes a table beside one with CLOSE WHEN, of the windows that are begun and not "
        "closed. They are made of what has come so far, so nothing that they read may wait for closed windows; and the "
        "columns window_label and is_closed are ours there.",
    ),
    "E269": Code(
        "a batch that reads open windows",
        "`spd_<table>` and `<table>_view` are for queries and notebooks. A batch is made of what is whole: of open "
        "windows it would have to be made again at each boundary.",
    ),
    "E370": Code(
        "MAX LATENESS of what is never closed",
        "MAX LATENESS says for how long late rows open a window again whose books CLOSE WHEN has closed. Windows that "
        "are not closed run again whenever what they read changes.",
    ),
    "E371": Code(
        "MAX LATENESS that cannot be kept",
        "Which rows are late is told by the time of a row: the column that watermark() in CLOSE WHEN is asked of, or "
        "the WATERMARK of what is read. Windows that late rows open again run again, which ON RESTATE REPORT forbids.",
    ),
}
