"""Resolves local dates and times without a zone to instants, by the rules of a zone."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from waterclock.errors import WaterclockError
from waterclock.similar_names import find_similar
from waterclock.timelabel.instant import out_of_range_error, utc_of
from waterclock.timelabel.label import instant_of

_SECOND = timedelta(seconds=1)
_INSTANT = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T](?P<time>(?:[01][0-9]|2[0-3]):[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)"
    r"[ ]?(?P<offset>[Zz]|[+-][0-9]{2}:?[0-9]{2})?)?"
)


@cache
def zone_names() -> frozenset[str]:
    """Return the names of all zones in the pinned tz database, the same on every machine."""
    return frozenset((files("tzdata") / "zones").read_text(encoding="ascii").split())


@cache
def nominal_zone(name: str) -> tzinfo:
    """Return the tzinfo of a zone by its name in the tz database.

    Rules come from the locked `tzdata` package, never from the machine: two runners must make the same windows. Raises
    E105, with the nearest names, for an unknown name.
    """
    if name == "UTC":
        return UTC
    if name not in zone_names():
        raise _unknown(name)
    with (files("tzdata") / "zoneinfo" / name).open("rb") as rules:
        return ZoneInfo.from_file(rules, key=name)


@lru_cache(maxsize=1 << 17)
def first_instant(zone: str, ordinal: int) -> datetime:
    """Return the instant at which a local date starts, to the second; `ordinal` is its `date.toordinal`.

    If midnight occurs twice, the date starts at the first one. If midnight is skipped, the date starts later. A skipped
    date starts when the next one does (docs/decisions/zones-and-days.md).
    """
    rules = nominal_zone(zone)
    try:
        midnight = datetime.fromordinal(ordinal)
        instant = midnight.replace(tzinfo=rules).astimezone(UTC)
        if instant.astimezone(rules).replace(tzinfo=None) == midnight:
            return instant
        before = midnight.replace(tzinfo=rules, fold=1).astimezone(UTC)
    except (OverflowError, ValueError):
        raise out_of_range_error(f"day {ordinal} in {zone}") from None
    low, high = 0, (instant - before) // _SECOND
    while high - low > 1:
        middle = (low + high) // 2
        if (before + middle * _SECOND).astimezone(rules).toordinal() >= ordinal:
            high = middle
        else:
            low = middle
    return before + high * _SECOND


def date_start(zone: str, ordinal: int) -> datetime:
    """Return the first instant of a local date. Raises E105 if it is not a whole minute, so that no label names it."""
    instant = first_instant(zone, ordinal)
    if instant.second:
        raise WaterclockError(
            "E105",
            f"{date.fromordinal(ordinal)} started in {zone} at {instant:%H:%M:%S} UTC: no label can name that instant",
            why="the zone's offset from UTC included seconds then, and labels are whole minutes",
            fix="start later, when the zone kept whole minutes, or use ZONE 'UTC'",
        )
    return instant


def resolve_local(naive: datetime, zone: str) -> datetime:
    """Convert a datetime without a zone to the instant that it means in `zone`.

    A time that occurs twice means its first occurrence; a skipped time is moved forward by the length of the gap.
    Raises E105 for an unknown zone, and E106 for a value that has a zone already.
    """
    if naive.tzinfo is not None:
        raise WaterclockError(
            "E106",
            f"{naive.isoformat()} has a zone already",
            why="only a value without a zone is read in the cadence's zone",
            fix="use it as it is",
        )
    try:
        return naive.replace(tzinfo=nominal_zone(zone), fold=0).astimezone(UTC)
    except OverflowError:
        raise out_of_range_error(f"{naive.isoformat()} in {zone}") from None


def parse_instant(text: str, zone: str) -> datetime:
    """Parse an instant: a date, a date and time (in `zone` unless an offset is written), or a label (UTC).

    `2018-01-01` is the first instant of that date in the zone. Raises E106 for any other form or a date that does not
    exist, and E105 for an unknown zone.
    """
    written = text.strip()
    if re.fullmatch(r"[0-9]{14}", written):
        return instant_of(written)
    match = _INSTANT.fullmatch(written)
    if match is None:
        raise _unreadable(text)
    day, time, offset = match["date"], match["time"], match["offset"]
    try:
        naive = datetime.fromisoformat(f"{day}T{time or '00:00'}")
        aware = datetime.fromisoformat(f"{day}T{time}{offset.upper()}") if offset else None
    except ValueError as error:
        raise _unreadable(text, f"{error}; ") from None
    if aware is not None:
        return utc_of(aware)
    return resolve_local(naive, zone) if time else date_start(zone, naive.toordinal())


def local_text(instant: datetime, zone: str) -> str:
    """Return an instant as local time in `zone`, for messages: `2024-03-05 00:00 +09:00`."""
    local = utc_of(instant).astimezone(nominal_zone(zone))
    offset = local.isoformat(timespec="minutes")[16:]
    return f"{local:%Y-%m-%d %H:%M} {offset}"


def _unknown(name: str) -> WaterclockError:
    places = {zone.rpartition("/")[2].replace("_", " ").lower(): zone for zone in sorted(zone_names(), reverse=True)}
    by_place = places.get(name.rpartition("/")[2].replace("_", " ").strip().lower())
    abbreviated = _find_zones_by_abbreviation(name.strip().upper()) if not by_place and name.strip().isalpha() else []
    near = [by_place] if by_place else abbreviated or find_similar(name, zone_names())
    why = "a zone is a name of the tz database, which records changes of its offset"
    if abbreviated:
        why = f"{name} is an abbreviation that several zones use; {why}"
    return WaterclockError(
        "E105",
        f"unknown zone {name!r}",
        why=why,
        fix=f"did you mean {' or '.join(near)}?" if near else "write one such as UTC or Europe/Berlin",
    )


def _find_zones_by_abbreviation(abbreviation: str) -> list[str]:
    """Return up to three zones that use an abbreviation such as CST, those with the most countries first.

    Cost: reads the rules of some 300 zones.
    """
    seasons = [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 7, 1, tzinfo=UTC)]
    rows = (files("tzdata") / "zoneinfo" / "zone1970.tab").read_text(encoding="utf-8").splitlines()
    countries = {row.split("\t")[2]: row.split("\t")[0].count(",") for row in rows if not row.startswith("#")}
    found = [
        name
        for name in sorted(countries, key=lambda name: (-countries[name], name))
        if abbreviation in {season.astimezone(nominal_zone(name)).tzname() for season in seasons}
    ]
    return found[:3]


def _unreadable(text: str, why: str = "") -> WaterclockError:
    return WaterclockError(
        "E106",
        f"cannot read {text!r} as an instant",
        why=f"{why}an instant is a date, a date and time, or a label",
        fix="write one such as '2018-01-01', '2018-01-01 06:00', '2018-01-01T06:00Z' or '20180101060000'",
    )
