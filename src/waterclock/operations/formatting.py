"""Formats labels, durations, counts and sizes for people. A label is shown in the zone of its table."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.label import label_of
from waterclock.timelabel.period import TimeUnit
from waterclock.timelabel.zone import local_text, nominal_zone


def local_label(label: datetime, cadence: Cadence) -> str:
    """Format a label in the cadence's zone: a date, or a date and time if windows are shorter than a day."""
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
    """Format the labels from `first` to `last` for people: `2013-01-04 .. 2013-01-06`."""
    low, high = local_label(first, cadence), local_label(last, cadence)
    return low if first == last else f"{low} .. {high}"


def label_range(first: datetime, last: datetime) -> str:
    """Format the labels from `first` to `last` as commands accept them."""
    return label_of(first) if first == last else f"{label_of(first)}..{label_of(last)}"


def instant_words(instant: datetime, zone: str) -> str:
    """Format an instant in a zone, followed by UTC if the zone is another: `2013-01-05 00:00 -05:00 (05:00Z)`."""
    if zone == "UTC":
        return f"{instant:%Y-%m-%d %H:%MZ}"
    return f"{local_text(instant, zone)} ({instant:%Y-%m-%d %H:%MZ})"


def page_time(instant: datetime, zone: str) -> str:
    """Format an instant for pages, in one zone only: `2013-01-05 00:00 -05:00`, or for UTC `2013-01-05 05:00Z`."""
    return instant_words(instant, zone) if zone == "UTC" else local_text(instant, zone)


def seconds_words(seconds: float) -> str:
    """Format a duration of work: `0.8 s`, `12 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = timedelta(seconds=round(seconds))
    minutes, left = divmod(int(whole.total_seconds()), 60)
    if not minutes:
        return f"{left} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {left:02d} s"


def span_words(span: timedelta) -> str:
    """Format a duration of waiting in its two largest units: `0 s`, `40 s`, `12 min`, `5 h 10 min`, `3 d 4 h`."""
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


# the parts of a reason that differ between batches: labels, dates in file names, counts and line numbers
_OF_A_BATCH = re.compile(r"@?\d{14}|\d{4}(?:[_-]\d\d)+|\b\d+\b")


def common_reason(reason: str) -> str:
    """Remove labels, dates and numbers from a reason, so that batches with the same failure have the same text."""
    return _OF_A_BATCH.sub("", reason)


def number_words(count: int) -> str:
    """Format a count with thin spaces between thousands: `336 776`."""
    return f"{count:,}".replace(",", "\u2009")


def count_words(count: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun: `1 label`, `12 labels`."""
    return f"{number_words(count)} {one if count == 1 else many or one + 's'}"


def bytes_words(size: int) -> str:
    """Format a size: `812 B`, `4.1 kB`, `1.2 GB`."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("a size has a unit")


def short_label(label: datetime, cadence: Cadence, now: datetime) -> str:
    """Format a short label: `20 Nov`, `20 Nov 17:00`, `Oct`, with the year if it is not the current one."""
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
