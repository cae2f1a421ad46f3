from __future__ import annotations

from datetime import timedelta

import pytest

from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.fitting import consists_of_windows, nearest_fitting_cadence
from waterclock.timelabel.period import parse_period


def cadence(text: str) -> Cadence:
    period, _, zone = text.partition(" in ")
    return Cadence(parse_period(period), zone=zone or "UTC")


@pytest.mark.parametrize(
    ("reader", "read"),
    [
        ("HOUR", "5 MINUTES"),
        ("HOUR", "HOUR"),
        ("DAY", "15 MINUTES"),
        ("24 HOURS", "DAY"),
        ("DAY", "24 HOURS"),
        ("24 HOURS", "DAY in Africa/Abidjan"),
        ("DAY in America/New_York", "HOUR"),
        ("DAY in Asia/Kolkata", "30 MINUTES"),
        ("DAY in Asia/Kathmandu", "15 MINUTES"),
        ("DAY in Australia/Lord_Howe", "30 MINUTES"),
        ("DAY in Pacific/Chatham", "15 MINUTES"),
        ("DAY in Antarctica/Troll", "HOUR"),
        ("DAY in America/Sao_Paulo", "HOUR"),
        ("DAY in Africa/Monrovia", "24 HOURS"),
        ("HOUR in Asia/Kolkata", "30 MINUTES in America/New_York"),
        ("WEEK", "DAY"),
        ("MONTH", "DAY"),
        ("YEAR", "QUARTER"),
        ("QUARTER in Asia/Tokyo", "MONTH in Asia/Tokyo"),
        ("YEAR in America/New_York", "DAY in America/New_York"),
        ("DAY in Europe/Berlin", "DAY in Arctic/Longyearbyen"),
        ("MONTH in US/Eastern", "MONTH in America/New_York"),
        ("WEEK in America/Sao_Paulo", "WEEK in America/Sao_Paulo"),
    ],
)
def test_windows_made_of_whole_windows_fit(reader: str, read: str) -> None:
    assert consists_of_windows(cadence(reader), cadence(read))


@pytest.mark.parametrize(
    ("reader", "read"),
    [
        ("HOUR", "DAY"),
        ("HOUR", "45 MINUTES"),
        ("5 MINUTES", "15 MINUTES"),
        ("DAY in Asia/Kolkata", "HOUR"),
        ("DAY in Asia/Kathmandu", "30 MINUTES"),
        ("DAY in Australia/Lord_Howe", "HOUR"),
        ("DAY in America/New_York", "2 HOURS"),
        ("DAY in America/New_York", "24 HOURS"),
        ("DAY in America/New_York", "DAY"),
        ("DAY", "DAY in America/New_York"),
        ("24 HOURS", "DAY in Europe/London"),
        ("12 HOURS", "DAY"),
        ("WEEK", "MONTH"),
        ("MONTH", "WEEK"),
        ("MONTH", "QUARTER"),
        ("DAY", "WEEK"),
        ("24 HOURS", "WEEK"),
        ("MONTH in Europe/Berlin", "MONTH"),
        ("DAY in Europe/Paris", "DAY in Europe/Berlin"),  # they differed in four summers of the seventies
        ("WEEK in Pacific/Apia", "WEEK in Pacific/Pago_Pago"),
    ],
)
def test_windows_that_would_be_cut_do_not_fit(reader: str, read: str) -> None:
    assert not consists_of_windows(cadence(reader), cadence(read))


def test_the_delay_does_not_affect_fitting() -> None:
    assert consists_of_windows(
        Cadence(parse_period("HOUR"), timedelta(hours=7)), Cadence(parse_period("5 MINUTES"), timedelta(minutes=3))
    )


@pytest.mark.parametrize(
    ("reader", "read", "nearest"),
    [
        ("HOUR", "DAY", "DAY"),
        ("5 MINUTES", "15 MINUTES", "15 MINUTES"),
        ("HOUR", "45 MINUTES", "45 MINUTES"),
        ("DAY in Asia/Kolkata", "HOUR", "24 HOURS"),
        ("MONTH", "WEEK", "WEEK"),
        ("DAY", "MONTH", "MONTH"),
        ("HOUR", "HOUR", "HOUR"),
    ],
)
def test_the_nearest_fitting_length_is_named(reader: str, read: str, nearest: str) -> None:
    found = nearest_fitting_cadence(cadence(reader), cadence(read))
    assert str(found.period) == nearest
    assert consists_of_windows(found, cadence(read))


def test_where_no_length_fits_in_the_readers_zone_that_of_the_read_table_is_named() -> None:
    found = nearest_fitting_cadence(cadence("HOUR"), cadence("DAY in America/New_York"))
    assert str(found) == "EVERY DAY ZONE 'America/New_York'"
