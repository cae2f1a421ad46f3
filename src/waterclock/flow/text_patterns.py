"""Translates the patterns of Spark's LIKE and RLIKE to the syntax of RE2, which searches in linear time.

Spark uses Java's regular expressions. Translated are those parts that mean the same to both, and have no backslash:
characters, classes of them, groups, alternatives, anchors and repetitions. A translated pattern is found in a text if
and only if Spark finds the original one. RE2 (https://github.com/google/re2/wiki/Syntax) has no other end than that of
the text, so `$` also takes a last line break, as in Java.
"""

from __future__ import annotations

import re

_CLASS = re.compile(r"\[(\^?)([^\[\]&^\\-][^\[\]&^\\]*)\]")
_RANGE = re.compile(r"([^-])-([^-])|([^-])|(-)$", re.DOTALL)
_REPEATED = re.compile(r"(?:[*?+]|\{[0-9]{1,3}(?:,(?:[0-9]{1,3})?)?\})\??(?![+*?{])")
_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_END = rf"(?:\r\n|[{_LINE_ENDS}])?\z"
_MOST_LETTERS = 1000


def translate_like(pattern: str) -> str | None:
    """Return the RE2 pattern of a LIKE pattern; None for one that is not translated."""
    if "\\" in pattern or len(pattern) > _MOST_LETTERS:
        return None
    parts = {"%": "(?s:.)*", "_": "(?s:.)"}
    return rf"\A{''.join(parts.get(letter) or _letter(letter) for letter in pattern)}\z"


def translate_regex(pattern: str) -> str | None:
    """Return the RE2 pattern of a regular expression of Java; None for one that is not translated."""
    if "\\" in pattern or len(pattern) > _MOST_LETTERS:
        return None
    found: list[str] = []
    at = depth = 0
    can_repeat = False
    while at < len(pattern):
        letter, repeats = pattern[at], False
        if letter in "*+?{":
            repeated = _REPEATED.match(pattern, at)
            if repeated is None or not can_repeat or not _is_ascending(repeated[0]):
                return None
            part, at = repeated[0], repeated.end()
        elif letter == "[":
            listed = _CLASS.match(pattern, at)
            inside = None if listed is None else _translate_class(listed[2])
            if listed is None or inside is None:
                return None
            part, at, repeats = f"[{listed[1]}{inside}]", listed.end(), True
        elif letter == "(":
            is_named = pattern[at + 1 : at + 2] == "?"
            if is_named and pattern[at + 1 : at + 3] != "?:":
                return None
            part, at, depth = "(?:", at + (3 if is_named else 1), depth + 1
        else:
            at += 1
            if letter == ")":
                depth -= 1
            if depth < 0 or letter in "]}" or (letter == "$" and (depth or pattern[at : at + 1] not in {"", "|"})):
                return None
            part = {")": ")", "|": "|", "^": r"\A", "$": _END, ".": f"[^{_LINE_ENDS}]"}.get(letter) or _letter(letter)
            repeats = letter not in "|^$"
        found.append(part)
        can_repeat = repeats
    return None if depth else "".join(found)


def _translate_class(inside: str) -> str | None:
    """Return the characters of a class; None for ranges that are no ranges of two single characters."""
    found: list[str] = []
    at = 0
    while at < len(inside):
        item = _RANGE.match(inside, at)
        if item is None:
            return None
        low, high, single, dash = item.groups()
        if low is not None:
            if low > high or inside[item.end() : item.end() + 1] == "-":
                return None
            found.append(f"{_letter(low)}-{_letter(high)}")
        else:
            found.append(_letter(single or dash))
        at = item.end()
    return "".join(found)


def _is_ascending(repeated: str) -> bool:
    bounds = [int(bound) for bound in re.findall("[0-9]+", repeated)]
    return bounds == sorted(bounds)


def _letter(letter: str) -> str:
    return letter if letter.isascii() and letter.isalnum() else rf"\x{{{ord(letter):x}}}"
