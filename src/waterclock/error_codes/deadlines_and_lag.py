"""Error codes of deadlines, and of metrics for lag."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

WATCHING: Mapping[str, Code] = {
    "E277": Code(
        "impossible deadline",
        "The deadline cannot be met. DEADLINE d requires a window to be done d after its end. Its batch is due at the "
        "end or its DELAY later, and takes the time in RUNTIME; both must fit. BY WATERMARK requires the watermark to "
        "pass the end of the window by then. At the earliest, rows of later windows advance it that far.",
    ),
    "E278": Code(
        "RUNTIME without DEADLINE",
        "RUNTIME needs a DEADLINE. RUNTIME d is the expected duration of a batch, and is used to meet the DEADLINE. "
        "Declare both.",
    ),
}
WATCHING_COMMANDS: Mapping[str, Code] = {
    "E919": Code(
        "--lag with selected labels",
        "`status --lag` measures the delay of tables up to now, by their newest labels. Options that select labels or "
        "columns of the grid cannot be combined with it.",
    ),
}
WATCHING_BY_WATERMARK: Mapping[str, Code] = {
    "E922": Code(
        "DEADLINE BY WATERMARK without WATERMARK",
        "DEADLINE d BY WATERMARK limits when the rows of a table, by their own time, must pass the end of a window. "
        "The WATERMARK of the table measures that progress. Declare both.",
    ),
}
