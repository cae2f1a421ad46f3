"""Writes labels, durations, counts and sizes for people; a label in the zone of its table, for it is UTC itself."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.label import label_of
from waterclock.timelabel.period import TimeUnit
from waterclock.timelabel.zone import local_text, nominal_zone


def local_label(label: datetime, cadence: Cadence) -> str:
    """Write a label as people of the cadence's zone say it: a date, or a date and time where windows are shorter."""
    local = label.astimezone(nominal_zone(cadence.zone))
    unit = cadence.period.unit
    if unit is TimeUnit.MINUTE:
        return f"{local:%Y-%m-%d %H:%M}"
    if unit is TimeUnit.MONTH:
        return f"{local:%Y-%m}"
    if unit is TimeUnit.QUARTER:
        return f"{local:%Y}-Q{(local.month - 1) // 3 + 1}"
    if unit is TimeUnit.YEAR:
        return f"{local:%Y}"
    return f"{local:%Y-%m-%d}"


def local_range(first: datetime, last: datetime, cadence: Cadence) -> str:
    """Write the labels from `first` to `last` as people say them: `2013-01-04 .. 2013-01-06`."""
    low, high = local_label(first, cadence), local_label(last, cadence)
    return low if first == last else f"{low} .. {high}"


def label_range(first: datetime, last: datetime) -> str:
    """Write the labels from `first` to `last` as commands take them."""
    return label_of(first) if first == last else f"{label_of(first)}..{label_of(last)}"


def instant_words(instant: datetime, zone: str) -> str:
    """Write an instant in a zone, and in UTC beside it where that is another: `2013-01-05 00:00 -05:00 (05:00Z)`."""
    if zone == "UTC":
        return f"{instant:%Y-%m-%d %H:%MZ}"
    return f"{local_text(instant, zone)} ({instant:%Y-%m-%d %H:%MZ})"


def page_time(instant: datetime, zone: str) -> str:
    """Write an instant for pages, in one zone: `2013-01-05 00:00 -05:00`, in UTC `2013-01-05 05:00Z`."""
    return instant_words(instant, zone) if zone == "UTC" else local_text(instant, zone)


def seconds_words(seconds: float) -> str:
    """Write a span of work: `0.8 s`, `12 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = timedelta(seconds=round(seconds))
    minutes, left = divmod(int(whole.total_seconds()), 60)
    if not minutes:
        return f"{left} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {left:02d} s"


def span_words(span: timedelta) -> str:
    """Write a span of waiting in its two largest units: `0 s`, `40 s`, `12 min`, `5 h 10 min`, `3 d 4 h`."""
    seconds = int(span.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


# labels, stamps of files, counts and lines tell one batch's failure from another's; names of columns tell reasons apart
_OF_A_BATCH = re.compile(r"@?\d{14}|\d{4}(?:[_-]\d\d)+|\b\d+\b")


def likeness(reason: str) -> str:
    """Return what a reason has in common with those of other batches that failed alike."""
    return _OF_A_BATCH.sub("", reason)


def number_words(count: int) -> str:
    """Write a count with thin thousands, as numbers are read: `336 776`."""
    return f"{count:,}".replace(",", "\u2009")


def count_words(count: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun: `1 label`, `12 labels`."""
    return f"{number_words(count)} {one if count == 1 else many or one + 's'}"


def bytes_words(size: int) -> str:
    """Write a size: `812 B`, `4.1 kB`, `1.2 GB`."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("a size has a unit")


def short_label(label: datetime, cadence: Cadence, now: datetime) -> str:
    """Write a label in a few letters: `20 Nov`, `20 Nov 17:00`, `Oct`; with its year where that is not this one."""
    local = label.astimezone(nominal_zone(cadence.zone))
    is_now = local.year == now.astimezone(nominal_zone(cadence.zone)).year
    unit = cadence.period.unit
    if unit is TimeUnit.YEAR:
        return f"{local:%Y}"
    if unit is TimeUnit.QUARTER:
        return f"Q{(local.month - 1) // 3 + 1}{'' if is_now else f' {local:%Y}'}"
    year = "" if is_now else f" {local:%Y}"
    if unit is TimeUnit.MONTH:
        return f"{local:%b}{year}"
    time = f" {local:%H:%M}" if unit is TimeUnit.MINUTE else ""
    return f"{local.day} {local:%b}{year}{time}"
