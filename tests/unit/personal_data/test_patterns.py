from __future__ import annotations

import random
import uuid
from collections.abc import Callable

import pytest

from waterclock.personal_data.patterns import PATTERNS, Pattern, match_values

# examples that the issuers of the numbers publish, and each with one wrong digit or letter
EXAMPLES: dict[str, tuple[list[str], list[str]]] = {
    "IBAN": (
        ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432"],
        ["DE88370400440532013000", "DE893704004405320130"],
    ),
    "card number": (
        ["4111 1111 1111 1111", "5555555555554444", "378282246310005"],
        ["4111111111111112", "9111111111111111"],
    ),
    "Spanish NIF": (["12345678Z", "X1234567L", "x-1234567-l"], ["12345678A", "X1234567M"]),
    "German tax id": (["86095742719", "47 036 892 816"], ["86095742718", "11111111111", "12345678903"]),
    "US social security number": (["078-05-1120"], ["000-12-3456", "666-12-3456", "987-65-4321", "123-00-4567"]),
    "Italian codice fiscale": (["RSSMRA85T10A562S"], ["RSSMRA85T10A562T"]),
    "French NIR": (["255081416802538", "2 55 08 14 168 025 38"], ["255081416802537"]),
    "Swiss AHV number": (["756.9217.0769.85", "7569217076985"], ["756.9217.0769.84"]),
    "Polish PESEL": (["44051401359"], ["44051401358", "44991401359"]),
    "e-mail address": (
        ["ann@example.org", "ä.b+c@sub.example.museum", "Ask bob@x.io, please"],
        ["ann@host", "@example.org", "a@b.c1"],
    ),
    "IP address": (["192.168.0.1", "2001:db8::1"], ["1.2.3.4", "12:30:45", "300.1.1.1"]),
    "phone number": (
        ["+49 30 901820", "(212) 555-0123", "030 / 901820", "0049 171 1234567"],
        ["2024-01-02", "12345678", "1.2.3"],
    ),
}


def pattern(name: str) -> Pattern:
    return next(each for each in PATTERNS if each.name == name)


def test_every_pattern_has_examples() -> None:
    assert {each.name for each in PATTERNS} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_valid_values_are_found_and_wrong_ones_are_not(name: str) -> None:
    valid, wrong = EXAMPLES[name]
    assert [text for text in valid if not pattern(name).is_in(text)] == []
    assert [text for text in wrong if pattern(name).is_in(text)] == []


@pytest.mark.parametrize("name", ["IBAN", "card number", "Spanish NIF", "German tax id", "e-mail address"])
def test_a_number_in_a_text_is_found_and_a_part_of_a_longer_one_is_not(name: str) -> None:
    value = EXAMPLES[name][0][0]
    assert pattern(name).is_in(f"Please use {value}.")
    assert not pattern(name).is_in(f"x{value}".replace("@", "9"))
    assert not pattern(name).is_in(f"{value}7".replace(".", ""))


def columns_without_personal_data() -> dict[str, list[str]]:
    """Return columns of random values that resemble personal numbers."""
    chance = random.Random(7)

    def digits(count: int) -> str:
        return str(chance.randrange(10 ** (count - 1), 10**count))

    makers: dict[str, Callable[[], str]] = {
        "9 digits": lambda: digits(9),
        "11 digits": lambda: digits(11),
        "13 digits": lambda: digits(13),
        "16 digits": lambda: digits(16),
        "milliseconds": lambda: str(1_700_000_000_000 + chance.randrange(10**9)),
        "sequence": lambda: str(4_000_000_000_000_000 + chance.randrange(10**6)),
        "uuid": lambda: str(uuid.UUID(int=chance.getrandbits(128))),
        "hash": lambda: f"{chance.getrandbits(256):064x}",
        "version": lambda: ".".join(str(chance.randrange(12)) for _ in range(4)),
        "time": lambda: f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}",
        "date": lambda: f"20{chance.randrange(10, 30)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}",
        "amount": lambda: f"{chance.randrange(10**6) / 100:.2f}",
        "code": lambda: f"{digits(8)}{chance.choice('ABCDEFGHJKLMNPQRSTVWXYZ')}",
        "words": lambda: " ".join(chance.choices(("blue", "order", "42", "at 9", "n/a", "@home", "x=1"), k=6)),
        "mac": lambda: ":".join(f"{chance.randrange(256):02x}" for _ in range(6)),
        "coordinates": lambda: f"{chance.uniform(-90, 90):.6f}, {chance.uniform(-180, 180):.6f}",
    }
    return {name: [make() for _ in range(1000)] for name, make in makers.items()}


def test_random_numbers_and_codes_are_no_personal_data() -> None:
    found = {name: match_values(values) for name, values in columns_without_personal_data().items()}
    assert {name: matches for name, matches in found.items() if matches} == {}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_column_of_valid_values_is_found_among_empty_ones(name: str) -> None:
    values = [*EXAMPLES[name][0] * 10, *[""] * 50]
    [first, *_] = match_values(values)
    assert (first.kind, first.share) == (pattern(name).kind, 1.0)
    assert name in {each.name for each in match_values(values)}


def test_some_addresses_in_texts_suffice_and_one_in_a_thousand_does_not() -> None:
    assert [each.kind for each in match_values(["call me"] * 97 + ["write to ann@example.org"] * 3)] == ["email"]
    assert match_values(["call me"] * 999 + ["ann@example.org"]) == []


def test_nothing_is_found_in_no_values() -> None:
    assert match_values([]) == match_values(["", "  "]) == []


def test_long_hostile_values_are_searched_quickly() -> None:
    match_values(["a@" * 5000, "1" * 10000, "+1" + " " * 9000, "x." * 9000 + "@", "DE89" + " 1" * 9000] * 200)
