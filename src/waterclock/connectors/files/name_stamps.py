"""Parses the stamp of a file from its name, by the option `stamp` or by the known forms of date and time.

A stamp is the last second of the rows in its file. If the finest unit of a pattern is a day, an hour or a minute, the
stamp is the last second of that unit. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import InvalidOption
from waterclock.timelabel.zone import resolve_local

STAMP = r"[0-9]{4}_[0-9]{2}_[0-9]{2}_[0-9]{2}_[0-9]{2}_[0-9]{2}"
CHANGED = "changed"
"""The value of the option `stamp` that selects the time of a file's last modification."""
# a source's clock is one second after its newest file's stamp: all rows before it have arrived
CLOCK_AFTER_STAMP = timedelta(seconds=1)

_ANY_STAMP = re.compile(rf"(?<![0-9])({STAMP}|[0-9]{{8}}T?[0-9]{{6}})(?![0-9])")
_CODE = re.compile(r"%(.?)")
_DIGITS = {"Y": 4, "j": 3, **dict.fromkeys("mdHMS", 2)}
_CODE_ORDERS = ("YmdHMS", "YjHMS")
_STEPS = {"M": timedelta(minutes=1), "H": timedelta(hours=1), "d": timedelta(days=1)}
_DATE = re.compile(
    r"(?<![0-9])(?:19|20)[0-9]{2}(?P<date>[-_./]?)(?:0[1-9]|1[0-2])(?:(?P=date)(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:(?P<between>[-_T]?)(?:[01][0-9]|2[0-3])(?P<time>[-_:]?)[0-5][0-9](?:(?P=time)(?P<seconds>[0-5][0-9]))?)?"
    r"|(?<=[-_./][0-9]{2}))(?![0-9])"
)


def stamp_in(name: str, pattern: str, zone: str) -> datetime | None:
    """Return the stamp in a file's name; None if it has none.

    It is parsed by `pattern`, or without a pattern as a date with a time of day in the last segment of the path.
    """
    if pattern == CHANGED:
        return None
    if not pattern:
        found = _ANY_STAMP.search(name.rpartition("/")[2])
        return exact_stamp(found[1], zone) if found else None
    match = _compile_pattern(pattern).search(name)
    return _last_second(match.groupdict(), zone) if match else None


def exact_stamp(text: str, zone: str) -> datetime | None:
    """Return the instant of a stamp with all six parts, such as 2017_08_18_05_33_44; None for an invalid time."""
    digits = text.replace("_", "").replace("T", "")
    parts = {code: digits[at : at + 2] for code, at in zip("mdHMS", range(4, 14, 2), strict=True)}
    return _last_second({"Y": digits[:4], **parts}, zone)


def undeclared_date(name: str) -> str | None:
    """Suggest a value of the option `stamp` for a file name with a date; None if none is needed or none matches."""
    if stamp_in(name, "", "UTC") is not None or (found := _DATE.search(name)) is None:
        return None
    sign, text = found["date"], found[0]
    pattern = f"%Y{sign}%m"
    if len(text) > len(f"2026{sign}11"):
        pattern += f"{sign}%d"
    if found["between"] is not None:
        pattern += f"{found['between']}%H{found['time']}%M" + (f"{found['time']}%S" if found["seconds"] else "")
    return pattern


def wrong_stamp(options: Mapping[str, Any], *, is_glob: bool) -> Iterator[InvalidOption]:
    """Yield errors for the option `stamp`: an invalid pattern, or names that have a fixed form of stamp."""
    pattern = str(options.get("stamp") or "")
    if not pattern or pattern == CHANGED:
        if pattern and not is_glob:
            yield _fixed_stamp_error()
        return
    if not is_glob:
        yield _fixed_stamp_error()
        return
    codes = [code for code in _CODE.findall(pattern) if code != "%"]
    if not codes or not any(sorted(codes) == sorted(order[: len(codes)]) for order in _CODE_ORDERS):
        yield InvalidOption(
            "E335",
            "stamp",
            f"invalid stamp {pattern!r}",
            "it is the form of the date in a file name: %Y, then %m, %d (or %j), %H, %M and %S, as far as it has them, "
            "each once",
            f"write it like stamp '%Y%m%d', or stamp '{CHANGED}' for the time of a file's last change",
        )


def _fixed_stamp_error() -> InvalidOption:
    return InvalidOption(
        "E334",
        "stamp",
        "stamp is set for a supplier.source",
        "the names of such files have their stamp in a fixed form, <supplier>_<source>_<YYYY_MM_DD_HH_MM_SS>",
        "leave stamp out, or name the files by a glob: FROM landing.`shop/orders_*.csv`",
    )


@lru_cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    text = "".join(
        re.escape(part) if at % 2 == 0 else "%" if part == "%" else f"(?P<{part}>[0-9]{{{_DIGITS[part]}}})"
        for at, part in enumerate(_CODE.split(pattern))
    )
    before = "(?<![0-9])" if text.startswith("(?P<") else ""
    after = "(?![0-9])" if text.endswith(")") else ""
    return re.compile(f"{before}{text}{after}")


def _last_second(parts: Mapping[str, str], zone: str) -> datetime | None:
    """Return the last second of the finest unit in `parts`, in UTC; None for an invalid time.

    `parts` maps the codes of a pattern, such as `Y` and `m`, to their texts.
    """
    known = {code: int(text) for code, text in parts.items()}
    try:
        day = datetime(known["Y"], known.get("m", 1), known.get("d", 1))  # noqa: DTZ001 (resolved below)
        day += timedelta(days=known.get("j", 1) - 1)
        if day.year != known["Y"]:
            return None
        local = day.replace(hour=known.get("H", 0), minute=known.get("M", 0), second=known.get("S", 0))
        is_exact = "S" in known
        stamp = (
            resolve_local(local, zone)
            if is_exact
            else resolve_local(_next_unit_start(local, known), zone) - CLOCK_AFTER_STAMP
        )
        stamp + CLOCK_AFTER_STAMP  # raises an error at the end of the calendar, where no clock can follow
    except (ValueError, OverflowError):
        return None
    except WaterclockError as beyond:
        if beyond.code != "E106":
            raise
        return None
    return stamp


def _next_unit_start(local: datetime, known: Mapping[str, int]) -> datetime:
    """Return the local time at which the next minute, hour, day, month or year begins: the finest unit in `known`."""
    finest = next((code for code in "MHd" if code in known), "d" if "j" in known else "")
    if finest:
        return local + _STEPS[finest]
    months = local.year * 12 + local.month if "m" in known else (local.year + 1) * 12
    return local.replace(year=months // 12, month=months % 12 + 1)
