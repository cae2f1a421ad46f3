"""The sign of a source that a window is complete, for which a collect waits before it reads the window."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.flow.enums import Sign
from waterclock.timelabel.duration import Duration


@dataclass(frozen=True, slots=True)
class Awaits:
    """The sign of a source that all rows of a window have arrived.

    `text`: a query, or a marker's name, in which %Y, %m, %d, %H, %M and %j stand for the window's start in the table's
    zone. `within`: how long after it is due a batch waits for the sign before it fails; None: forever.
    """

    sign: Sign
    text: str = ""
    within: Duration | None = None

    def __str__(self) -> str:
        said = {Sign.MARKER: f"'{self.text}'", Sign.NEXT: "NEXT", Sign.QUERY: f"QUERY '{self.text}'"}[self.sign]
        return said if self.within is None else f"{said} FOR {self.within}"
