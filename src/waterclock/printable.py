"""Makes texts of users, sources and files safe to print: control and invisible characters become visible escapes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

# control characters except line feed and tab, marks of text direction, unpaired surrogates
_CONTROL_CHARACTERS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
# characters that are not visible and have no width, and fillers that look like a space
_INVISIBLE_CHARACTERS = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
# joiners and variation selectors are kept in scripts that are written with them, such as Persian, and in emoji
_JOINED = "\u0590-\u1fff\u2100-\u2fff\U0001f000-\U0001faff"
_JOINERS = f"(?<![{_JOINED}\ufe0f])[\u200c\u200d]|[\u200c\u200d](?![{_JOINED}])"
_SELECTORS = "(?<![#*0-9\u00a9\u00ae\u1000-\uffff\U00010000-\U0003ffff])[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
_HIDDEN = re.compile(f"[{_INVISIBLE_CHARACTERS}\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_ESCAPED = re.compile(f"[{_CONTROL_CHARACTERS}{_INVISIBLE_CHARACTERS}]|{_JOINERS}|{_SELECTORS}")

_SIMILAR_SCRIPTS = {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "COPTIC", "CHEROKEE"}


def printable(text: str) -> str:
    r"""Escape the characters of a text that control a terminal, such as those of `\x1b[2J` in a name, or are invisible.

    Two texts that differ in invisible characters alone would print alike. Joiners are kept between the letters of
    scripts that need them.
    """
    return _ESCAPED.sub(_escape_match, text)


def printable_line(text: str) -> str:
    r"""Return a text as one line: escaped as by `printable`, and with `\x0a` for each line break."""
    return printable(text).replace("\n", r"\x0a")


def mark_hidden(text: str, mark: Callable[[str, str], str]) -> str:
    """Replace each control or invisible character of a text by `mark(character, escape)`."""
    return _ESCAPED.sub(lambda found: mark(found[0], _escape_match(found)), text)


def look_alike(one: str, other: str) -> bool:
    """Return whether two different texts may look the same.

    Readers do not see invisible characters, forms of one character and the number of spaces. Letters of different
    scripts may look the same, such as Latin and Cyrillic a, and so may signs, such as two dashes.
    """
    are_cut = one.endswith("…") and other.endswith("…")  # then the rest of both may have different lengths
    seen, other_seen = (_visible_part(text.removesuffix("…") if are_cut else text) for text in (one, other))
    return (are_cut or len(seen) == len(other_seen)) and all(map(_are_similar, seen, other_seen))


def _visible_part(text: str) -> str:
    plain = unicodedata.normalize("NFKC", _HIDDEN.sub("", text))
    return " ".join("".join(each for each in plain if unicodedata.category(each) != "Cf").split())


def _are_similar(one: str, other: str) -> bool:
    """Return whether two characters are equal, letters of scripts that share forms, or signs such as two dashes."""
    if one == other:
        return True
    if one.isascii() and other.isascii():
        return False
    if one.isalpha() and other.isalpha():
        scripts = {unicodedata.name(each, "").partition(" ")[0] for each in (one, other)}
        return len(scripts) > 1 and scripts <= _SIMILAR_SCRIPTS
    return all(unicodedata.category(each).startswith("P") for each in (one, other))


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
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
