"""Makes texts of users, sources and files safe to print: control sequences of terminals become visible escapes."""

from __future__ import annotations

import re

# control characters except line feed and tab, marks of text direction, unpaired surrogates
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Escape the characters of a text that control a terminal, such as those of `\x1b[2J` in a name."""
    return _CONTROL_CHARACTERS.sub(_escape_match, text)


def printable_line(text: str) -> str:
    r"""Return a text as one line: escaped as by `printable`, and with `\x0a` for each line break."""
    return printable(text).replace("\n", r"\x0a")


def escape_logs() -> None:
    """Escape control characters in log messages of libraries, which may quote input, unless logging is configured."""
    import logging  # takes 5 ms

    class Escaped(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return printable(super().format(record))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Escaped())


def _escape_match(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
