"""Resolves the section `[maintenance]` of the project file."""

from __future__ import annotations

import re
from datetime import time

from waterclock.dpl.config.model import Config
from waterclock.errors import WaterclockError
from waterclock.flow.maintenance_hours import MaintenanceHours
from waterclock.timelabel.zone import nominal_zone

_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_SIZE = re.compile(r"(\d{1,6}) ?(MB|GB|TB)")
_BYTES = {"MB": 10**6, "GB": 10**9, "TB": 10**12}


def resolve_maintenance_hours(config: Config, errors: list[WaterclockError]) -> MaintenanceHours | None:
    """Return the hours of maintenance of the project file, or None without them. Append all errors to `errors`."""
    section = config.maintenance
    if section is None:
        return None

    def refuse(key: str, what: str, fix: str) -> None:
        errors.append(config.place_of_env(("maintenance", key)).refuse("E242", what, fix=fix))

    zone = section.zone or next((each.zone for pattern, each in config.defaults if pattern == "*" and each.zone), "UTC")
    try:
        nominal_zone(zone)
    except WaterclockError as error:
        if section.zone is not None:  # a wrong zone of [defaults] is reported for the tables
            refuse("zone", error.what, error.fix or 'write one such as "Europe/Berlin"')
        zone = "UTC"
    hours, size = _HOURS.fullmatch(section.hours), _SIZE.fullmatch(section.join)
    if hours is None:
        refuse("hours", f"{section.hours!r} are not hours of a day", 'write them as "01:00-05:00"')
    if size is None:
        refuse("join", f"{section.join!r} is not a size", 'write it as "20 GB"; the units are MB, GB and TB')
    if hours is None or size is None:
        return None
    first, second = time(int(hours[1]), int(hours[2])), time(int(hours[3]), int(hours[4]))
    return MaintenanceHours(first, second, zone, int(size[1]) * _BYTES[size[2]])
