"""AWAIT: the sign of complete data for which a collect waits before it reads a window from its source."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.flow.enums import WindowSignal
from waterclock.timelabel.duration import Duration


@dataclass(frozen=True, slots=True)
class Awaits:
    """An AWAIT clause: a batch waits until its source shows that all rows of the window have arrived.

    `text`: a query, or a marker file's name, in which %Y, %m, %d, %H, %M and %j are replaced by the window's start in
    the table's zone. `within`: the longest wait of a due batch, after which it fails; None for no limit.
    """

    sign: WindowSignal
    text: str = ""
    within: Duration | None = None

    def __str__(self) -> str:
        text = {
            WindowSignal.MARKER: f"'{self.text}'",
            WindowSignal.NEXT: "NEXT",
            WindowSignal.QUERY: f"QUERY '{self.text}'",
        }[self.sign]
        return text if self.within is None else f"{text} FOR {self.within}"
