"""Formats and parses labels: `YYYYMMDDHHmm00`, their five parts, and their path in storage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from waterclock.errors import WaterclockError
from waterclock.timelabel.instant import utc_of

TIMELABEL = "timelabel"  # the column that contains, in every row, the label of its batch
_LABEL = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})00")
_HIVE = re.compile(r"(?:^|/)y=([0-9]{4})/m=([0-9]{2})/d=([0-9]{2})/h=([0-9]{2})/n=([0-9]{2})(?=/|$)")
_WIDTHS = (4, 2, 2, 2, 2)


class LabelParts(NamedTuple):
    """Year, month, day, hour and minute of a label, each as zero-padded digits."""

    y: str
    m: str
    d: str
    h: str
    n: str


def label_of(instant: datetime) -> str:
    """Return the label of an instant, `YYYYMMDDHHmm00` in UTC.

    Raises E106 for a datetime without a zone, and E101 for one that is not a whole minute.
    """
    t = utc_of(instant)
    if t.second or t.microsecond:
        whole = t.replace(second=0, microsecond=0)
        raise WaterclockError(
            "E101",
            f"{t.isoformat()} is not a whole minute",
            why="a label is the UTC start of a window, YYYYMMDDHHmm00, and windows start at whole minutes",
            fix=f"the minute that contains it is {label_of(whole)}",
        )
    return f"{t.year:04d}{t.month:02d}{t.day:02d}{t.hour:02d}{t.minute:02d}00"


def instant_of(label: str) -> datetime:
    """Return the UTC instant of a label. Raises E101 for anything but YYYYMMDDHHmm00 of an existing time."""
    match = _LABEL.fullmatch(label)
    if match is None:
        raise _malformed_label_error(label)
    y, m, d, h, n = match.groups()
    try:
        return datetime(int(y), int(m), int(d), int(h), int(n), tzinfo=UTC)
    except ValueError as error:
        raise _malformed_label_error(label, f"{error}; ") from None


def parts_of(label: str) -> LabelParts:
    """Split a label: `20180305080000` → ('2018', '03', '05', '08', '00'). Raises E101 for a malformed label."""
    instant_of(label)
    return LabelParts(label[:4], label[4:6], label[6:8], label[8:10], label[10:12])


def label_of_parts(parts: Sequence[str]) -> str:
    """Join year, month, day, hour and minute to a label. Raises E101 for missing, unpadded or invalid parts."""
    if tuple(len(part) for part in parts) != _WIDTHS:
        raise _malformed_label_error(
            "".join(parts), f"the parts {tuple(parts)!r} are not y, m, d, h, n of 4, 2, 2, 2, 2 digits; "
        )
    label = "".join(parts) + "00"
    instant_of(label)
    return label


def hive_path(label: str) -> str:
    """Return a label's folder: `20180305080000` → `y=2018/m=03/d=05/h=08/n=00`. Raises E101 for a malformed label."""
    y, m, d, h, n = parts_of(label)
    return f"y={y}/m={m}/d={d}/h={h}/n={n}"


def label_of_hive_path(path: str) -> str:
    """Return the label of the last folder `y=/m=/d=/h=/n=` in `path`. Raises E101 if there is none."""
    found = _HIVE.findall(path)
    if not found:
        raise WaterclockError(
            "E101",
            f"no label in the path {path!r}",
            why="a label's folder is y=YYYY/m=MM/d=DD/h=HH/n=mm, padded with zeros",
            fix="write it as in y=2018/m=03/d=05/h=08/n=00",
        )
    return label_of_parts(found[-1])


def _malformed_label_error(label: str, why: str = "") -> WaterclockError:
    return WaterclockError(
        "E101",
        f"malformed label {label!r}",
        why=f"{why}a label is the UTC start of a window, YYYYMMDDHHmm00",
        fix=_suggest_label(label) or "write it as in 20180305080000 for 2018-03-05 08:00 UTC",
    )


def _suggest_label(label: str) -> str | None:
    """Return a hint with a valid label for a date, or a time with separators or seconds that are not 0; else None."""
    digits = re.sub(r"[-:T_/ Z]", "", label)
    if not re.fullmatch(r"[0-9]{8}|[0-9]{10}|[0-9]{12}|[0-9]{14}", digits):
        return None
    minute = digits[:12].ljust(12, "0")
    try:
        datetime.strptime(f"{minute}Z", "%Y%m%d%H%M%z")
    except ValueError:
        return None
    return f"write {minute}00"
