"""The display of states on a terminal: a glyph, a word and a colour for each, on dark and on light backgrounds."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.text import Text
from rich.theme import Theme

from waterclock.cli.views.output import discard
from waterclock.operations.display_states import State
from waterclock.printable import printable

_NAME_VALUE = re.compile(r"  (?=\S[^@]{0,18}  )(?:\S| (?! ))+ {2,}")  # a name with two or more spaces on each side
WIDTH_OF_FILES = 120  # for output without a known width: a pipe, a file, a log


@dataclass(frozen=True, slots=True)
class StatusStyle:
    """A state's glyph, the plain character for terminals that cannot show it, and the name of its style."""

    glyph: str
    plain: str
    style: str

    @property
    def word(self) -> str:
        """The style of the state's word. It is readable even if the glyph is muted, as for done batches."""
        return "ok" if self.style == "ok.quiet" else self.style


LOOKS: Mapping[State, StatusStyle] = MappingProxyType(
    {
        State.FAILED: StatusStyle("✕", "X", "fail.loud"),
        State.HELD: StatusStyle("◆", "H", "warn.loud"),
        State.BLOCKED: StatusStyle("┃", "|", "fail"),
        State.EXPIRED: StatusStyle("∅", "0", "fail"),
        State.RUNNING: StatusStyle("↻", "@", "run"),
        State.STALE: StatusStyle("▨", "~", "ok.loud"),
        State.PAUSED: StatusStyle("P", "P", "idle.loud"),
        State.DUE: StatusStyle("·", ".", "idle.loud"),
        State.BEHIND: StatusStyle("◧", "<", "ok.loud"),
        State.WARNED: StatusStyle("▲", "!", "warn"),
        State.SKIPPED: StatusStyle("»", ">", "warn"),
        State.OK: StatusStyle("■", "#", "ok.quiet"),
        State.STOOD_FOR: StatusStyle("→", "-", "idle"),
        State.NOT_NEEDED: StatusStyle("□", "o", "idle"),
    }
)

# see docs/decisions/glyphs-of-states.md; "both" is for an unknown background, with contrast 3:1 on white and on black
PALETTES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "light": {"ok": "#1f8a70", "warn": "#b87700", "fail": "#a3123a", "run": "#2f6fed", "idle": "#6f7b8b"},
        "dark": {"ok": "#4fc3a1", "warn": "#f0b429", "fail": "#f0655c", "run": "#7aa7ff", "idle": "#7b8698"},
        "both": {"ok": "#249478", "warn": "#b87a10", "fail": "#e0364f", "run": "#3f80f2", "idle": "#788494"},
    }
)

# done cells are muted so that a red cell stands out: 55 % of the colour on the background, or contrast 3:1
_QUIET_OK = MappingProxyType({"light": "#5aa18f", "dark": "#347666", "both": PALETTES["both"]["ok"]})


def read_background() -> str:
    """Return the background: WATERCLOCK_THEME if set, else 'light' or 'dark' by COLORFGBG, else 'both'."""
    name = os.environ.get("WATERCLOCK_THEME", "").lower()
    if name in PALETTES:
        return name
    back = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    if back.isdigit():
        return "light" if int(back) in {7, 15} else "dark"
    return "both"


def console(*, stderr: bool = False) -> Console:
    """Return the console for stdout or stderr. It respects NO_COLOR and COLUMNS."""
    return make_console(sys.stderr if stderr else sys.stdout)


def make_console(stream: IO[str], *, width: int | None = None) -> Console:
    """Build a console that writes to a stream, in the theme for the terminal's background."""
    made = _WrappingConsole(
        file=stream, theme=theme(read_background()), highlight=False, width=width, emoji=False, markup=False
    )
    if width is None and (not made.width or (not made.is_terminal and "COLUMNS" not in os.environ)):
        made.width = WIDTH_OF_FILES  # COLUMNS=0 means that the width is not known
    if not made.is_terminal:
        made.size = made.size  # fixes the size: otherwise each line reads it from the environment again
    return made


def theme(of_ground: str) -> Theme:
    """Return the styles for a background. They are named by their meaning, such as `fail.loud`."""
    colours = PALETTES[of_ground]
    styles = dict(colours) | {f"{name}.loud": f"bold {colour}" for name, colour in colours.items()}
    styles["ok.quiet"] = _QUIET_OK[of_ground]
    return Theme(styles | {"name": "bold", "where": colours["run"], "quiet": colours["idle"], "head": "bold"})


def has_glyphs(of: Console) -> bool:
    """Return whether the stream can encode the glyphs."""
    return of.encoding.lower().startswith("utf")


def state_character(state: State, of: Console) -> str:
    """Return the glyph of a state, or its plain character if the console cannot encode glyphs."""
    return LOOKS[state].glyph if has_glyphs(of) else LOOKS[state].plain


class _WrappingConsole(Console):
    """A console that wraps long lines between words and indents the continuation, on terminals only.

    Long words are not wrapped. Control characters are escaped here, since all output passes through this console.
    """

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of the output, with escapes in place of control characters."""
        for segment in super().render(renderable, options):
            if segment.control or (segment.text.isascii() and segment.text.isprintable()):
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Print nothing more once the reader is gone. The command continues, and exits with its own code."""
        self.quiet = True
        discard(self.file)

    def print(self, *objects: Any, soft_wrap: bool | None = None, **how: Any) -> None:
        if soft_wrap and self.is_terminal and objects:
            objects = tuple(wrap_words(Text(each) if isinstance(each, str) else each, self.width) for each in objects)
        super().print(*objects, soft_wrap=soft_wrap, **how)


def _indent_of(line: str) -> int:
    """Return the indent of continuation lines: the column of the value after a name, or else two more spaces."""
    named = _NAME_VALUE.match(line)
    return named.end() if named else len(line) - len(line.lstrip(" ")) + 2


def wrap_words(text: Any, width: int) -> Any:
    """Wrap the lines of a Text that are wider than `width` between words. Return any other object unchanged."""
    if not isinstance(text, Text):
        return text
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        indent = _indent_of(line.plain)
        left = line
        while left.cell_len > width:
            at = left.plain.rfind(" ", indent, width + 1)
            if at < 0:
                break
            first, left = left[:at], left[at + 1 :]
            first.rstrip()
            lines.append(first)
            left = Text.assemble(" " * indent, left)
        lines.append(left)
    broken = Text("\n", end=text.end).join(lines)
    broken.end = text.end
    return broken
