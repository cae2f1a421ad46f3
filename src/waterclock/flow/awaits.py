"""What a collect waits for before it reads a window: a sign of its source that all of the window is there."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.flow.choices import Sign
from waterclock.timelabel.duration import Duration


@dataclass(frozen=True, slots=True)
class Awaits:
    """The sign that a window's rows are all there: it is read once that is seen.

    `text`: a marker's name, in which %Y, %m, %d, %H, %M and %j are those of the window's start in the table's zone, or
    a query. `within`: how long after it is due a window waits before its batch fails; None: for ever.
    """

    sign: Sign
    text: str = ""
    within: Duration | None = None

    def __str__(self) -> str:
        said = {Sign.MARKER: f"'{self.text}'", Sign.NEXT: "NEXT", Sign.QUERY: f"QUERY '{self.text}'"}[self.sign]
        return said if self.within is None else f"{said} FOR {self.within}"
