"""Error codes of deadlines and of metrics of lag."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

WATCHING: Mapping[str, Code] = {
    "E277": Code(
        "a deadline that cannot be kept",
        "DEADLINE d says that a window is done d after its end. It is due at its end, or its DELAY later, and its "
        "batch takes as long as RUNTIME says: both must fit. BY WATERMARK says that the watermark has passed the "
        "window's end by then, which rows of windows behind it carry past it at the earliest.",
    ),
    "E278": Code(
        "RUNTIME without a deadline",
        "RUNTIME d says how long a batch may take, so that it is done by its DEADLINE: the two are said together.",
    ),
}
WATCHING_COMMANDS: Mapping[str, Code] = {
    "E919": Code(
        "lag of some labels",
        "`status --lag` tells how far tables are behind now, by their newest labels. Labels and columns of the grid "
        "are chosen without it.",
    ),
}
WATCHING_BY_WATERMARK: Mapping[str, Code] = {
    "E922": Code(
        "a deadline by a watermark that nothing tells",
        "DEADLINE d BY WATERMARK says by when the rows of a table have come past a window's end, by their own time. "
        "Its WATERMARK tells how far they have come, so the table says both.",
    ),
}
