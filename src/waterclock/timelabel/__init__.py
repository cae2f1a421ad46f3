"""The clock: labels, windows, cadences and interval sets; pure, it never reads the time (ARCHITECTURE 3)."""

from __future__ import annotations

from datetime import UTC

from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.cron import compile_cron
from waterclock.timelabel.duration import Duration, DurationUnit, elapsed_text, parse_duration
from waterclock.timelabel.fitting import fits, nearest_fitting, nearest_fitting_cadence
from waterclock.timelabel.instant import EPOCH, utc_of
from waterclock.timelabel.intervals import Interval, IntervalSet
from waterclock.timelabel.label import (
    LabelParts,
    hive_path,
    instant_of,
    label_of,
    label_of_hive_path,
    label_of_parts,
    parts_of,
)
from waterclock.timelabel.period import Period, Unit, parse_period
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import local_text, nominal_zone, parse_instant, resolve_local

__all__ = [
    "EPOCH",
    "UTC",
    "Cadence",
    "Duration",
    "DurationUnit",
    "Interval",
    "IntervalSet",
    "LabelParts",
    "Period",
    "Unit",
    "Window",
    "compile_cron",
    "elapsed_text",
    "fits",
    "hive_path",
    "instant_of",
    "label_of",
    "label_of_hive_path",
    "label_of_parts",
    "local_text",
    "nearest_fitting",
    "nearest_fitting_cadence",
    "nominal_zone",
    "parse_duration",
    "parse_instant",
    "parse_period",
    "parts_of",
    "resolve_local",
    "utc_of",
]
