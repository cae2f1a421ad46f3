"""Recognizes personal data in values: by patterns, and by the checksums of account, card and identity numbers.

`PATTERNS` is the only table of patterns. Each has a minimum share of a column's values in which it must be found, so
that values with a valid checksum by chance do not count.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date

MOST_CHARACTERS = 256
"""The number of characters at the beginning of a value that are searched."""

_IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AT": 20, "BA": 20, "BE": 16, "BG": 22, "CH": 21, "CY": 28, "CZ": 24, "DE": 22, "DK": 18,
    "EE": 20, "ES": 24, "FI": 18, "FR": 27, "GB": 22, "GI": 23, "GR": 27, "HR": 21, "HU": 28, "IE": 22, "IL": 23,
    "IS": 26, "IT": 27, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "MC": 27, "MT": 31, "NL": 18, "NO": 15, "PL": 28,
    "PT": 25, "RO": 24, "RS": 22, "SA": 24, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "TR": 26, "UA": 29,
}  # fmt: skip
# the longest prefixes of issuers and the lengths of their numbers: Visa, Mastercard, American Express, Discover,
# Diners Club, JCB, UnionPay
_CARDS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}"
    r"|6(?:011|4[4-9]\d|5\d\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}"
)
_NIF_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_ODD_SIGNS = dict(
    zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        [1, 0, 5, 7, 9, 13, 15, 17, 19, 21] * 2 + [2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23],
        strict=True,
    )
)


def is_iban(text: str) -> bool:
    """Return whether a text is an IBAN: it has the length for its country, and the remainder 1 modulo 97."""
    plain = text.replace(" ", "").upper()
    if _IBAN_LENGTHS.get(plain[:2]) != len(plain):
        return False
    return int("".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])) % 97 == 1


def is_card_number(text: str) -> bool:
    """Return whether a text is a card number: the prefix and length of an issuer, and a valid Luhn sum."""
    plain = _digits(text)
    return _CARDS.fullmatch(plain) is not None and _luhn(plain)


def is_spanish_nif(text: str) -> bool:
    """Return whether a text is a Spanish NIF or NIE: eight digits, or X, Y, Z and seven, with the letter modulo 23."""
    plain = text.upper().replace("-", "")
    return (
        _NIF_LETTERS[int(str("XYZ".find(plain[0])) + plain[1:8] if plain[0] in "XYZ" else plain[:8]) % 23] == plain[-1]
    )


def is_german_tax_id(text: str) -> bool:
    """Return whether a text is a German tax id: eleven digits, ISO 7064 MOD 11,10, and one digit two or three times."""
    plain = _digits(text)
    counts = sorted((plain[:10].count(digit) for digit in set(plain[:10])), reverse=True)
    if plain[0] == "0" or counts[0] not in {2, 3} or (len(counts) > 1 and counts[1] > 1):
        return False
    product = 10
    for digit in plain[:10]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(plain[10])


def is_us_ssn(text: str) -> bool:
    """Return whether a text is in a range of US social security numbers. They have no checksum."""
    area, group, serial = text.split("-")
    return area not in {"000", "666"} and area < "900" and group != "00" and serial != "0000"


def is_italian_tax_code(text: str) -> bool:
    """Return whether a text is an Italian codice fiscale with a valid last letter."""
    plain = text.upper()
    even = (int(sign) if sign.isdigit() else ord(sign) - ord("A") for sign in plain[1:15:2])
    return (sum(_ODD_SIGNS[sign] for sign in plain[0:15:2]) + sum(even)) % 26 == ord(plain[15]) - ord("A")


def is_french_nir(text: str) -> bool:
    """Return whether a text is a French NIR with a valid key: 97 minus the number modulo 97."""
    plain = text.replace(" ", "")
    return 97 - int(plain[:13]) % 97 == int(plain[13:])


def is_swiss_ahv(text: str) -> bool:
    """Return whether a text is a Swiss AHV number, a number of EAN-13 with the prefix 756."""
    plain = _digits(text)
    return sum(int(digit) * (3 if at % 2 else 1) for at, digit in enumerate(plain)) % 10 == 0


def is_pesel(text: str) -> bool:
    """Return whether a text is a Polish PESEL: a date of birth, and a weighted sum that is divisible by ten."""
    century = {0: 1900, 1: 2000, 2: 2100, 3: 2200, 4: 1800}[int(text[2]) // 2]
    try:
        date(century + int(text[:2]), int(text[2:4]) % 20, int(text[4:6]))
    except ValueError:
        return False
    weights = (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)
    return sum(weight * int(digit) for weight, digit in zip(weights, text, strict=True)) % 10 == 0


def is_ip_address(text: str) -> bool:
    """Return whether a text is an IP address. Version 4 needs a part above 99, which version numbers seldom have."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return False
    return found.version == 6 or max(found.packed) > 99


def is_phone_number(text: str) -> bool:
    """Return whether a text has as many digits as a phone number: 8 to 15."""
    return 8 <= len(_digits(text)) <= 15


def _digits(text: str) -> str:
    return "".join(sign for sign in text if sign in "0123456789")


def _luhn(digits: str) -> bool:
    doubled = (sum(divmod(int(digit) * 2, 10)) if at % 2 else int(digit) for at, digit in enumerate(reversed(digits)))
    return sum(doubled) % 10 == 0


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of values: its kind of personal data, its name, the regex, and a check of the text that it matches.

    `least_share`: the share of a column's values in which it must be found. `is_whole`: it must match a whole value.
    """

    kind: str
    name: str
    regex: re.Pattern[str]
    is_valid: Callable[[str], bool] = lambda _: True
    least_share: float = 0.5
    is_whole: bool = False

    def is_in(self, value: str) -> bool:
        """Return whether a value contains the pattern."""
        if self.is_whole:
            return self.regex.fullmatch(value) is not None and self.is_valid(value)
        return any(self.is_valid(found[0]) for found in self.regex.finditer(value))


def _alone(pattern: str) -> re.Pattern[str]:
    """Compile a pattern that matches only if it is not a part of a longer word or number."""
    return re.compile(rf"(?<![\w.,-])(?:{pattern})(?![\w-]|[.,]\d)", re.ASCII)


_IN_TEXTS = 0.02  # for values that almost never occur by chance: few texts that contain them are enough
_FEW = 0.3  # a random number has a valid checksum in one of 10 to 100 cases

PATTERNS = (
    Pattern(
        "email",
        "e-mail address",
        re.compile(r"(?<![^\s<>\"'(),;:\[=])[^\s<>\"'(),;:\[\]@=/]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w@-])"),
        least_share=_IN_TEXTS,
    ),
    Pattern("bank account", "IBAN", _alone(r"[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]){11,28}"), is_iban, _IN_TEXTS),
    Pattern("card number", "card number", _alone(r"\d(?:[ -]?\d){11,18}"), is_card_number, _FEW),
    Pattern(
        "national id",
        "Spanish NIF",
        _alone(r"(?:\d{8}|[XYZxyz]-?\d{7})-?[A-HJ-NP-TV-Za-hj-np-tv-z]"),
        is_spanish_nif,
        _FEW,
    ),
    Pattern("national id", "German tax id", _alone(r"\d{2} ?\d{3} ?\d{3} ?\d{3}"), is_german_tax_id, _FEW),
    Pattern("national id", "US social security number", _alone(r"\d{3}-\d{2}-\d{4}"), is_us_ssn),
    Pattern(
        "national id",
        "Italian codice fiscale",
        _alone(r"[A-Za-z]{6}\d{2}[A-Ea-eHhLlMmPpR-Tr-t]\d{2}[A-Za-z]\d{3}[A-Za-z]"),
        is_italian_tax_code,
        _FEW,
    ),
    Pattern(
        "national id",
        "French NIR",
        _alone(r"[12] ?\d\d ?(?:0[1-9]|1[0-2]) ?\d\d ?\d{3} ?\d{3} ?\d\d"),
        is_french_nir,
        _FEW,
    ),
    Pattern("national id", "Swiss AHV number", _alone(r"756\.?\d{4}\.?\d{4}\.?\d\d"), is_swiss_ahv, _FEW),
    Pattern("national id", "Polish PESEL", _alone(r"\d{11}"), is_pesel, _FEW),
    Pattern("ip address", "IP address", re.compile(r"[0-9a-fA-F:.]{3,45}"), is_ip_address, is_whole=True),
    Pattern(
        "phone",
        "phone number",
        re.compile(
            r"(?:\+|00)[1-9]\d{0,2}[ \d()/.-]{6,20}|\(\d{3}\) ?\d{3}[ .-]\d{4}|\d{3}([.-])\d{3}\1\d{4}"
            r"|0\d{2,4}(?: ?[/-] ?| )\d{2,4}(?:[ -]?\d{2,4}){1,3}"
        ),
        is_phone_number,
        is_whole=True,
    ),
)  # fmt: skip

CHECKED_KINDS = frozenset({"email", "bank account", "card number", "ip address"})
"""Kinds whose values always have a pattern: a column without any such value does not contain the kind."""


@dataclass(frozen=True, slots=True)
class ValueMatch:
    """A pattern in the values of a column: its kind and name, and the share of values that contain it."""

    kind: str
    name: str
    share: float


def match_values(values: Iterable[str]) -> list[ValueMatch]:
    """Return the patterns that enough of a column's values contain, the most frequent first. Empty values do not count.

    Example:
        >>> match_values(["ann@example.org", "bob@example.org", "none"])
        [ValueMatch(kind='email', name='e-mail address', share=0.6666666666666666)]
    """
    texts = [text for value in values if (text := value[:MOST_CHARACTERS].strip())]
    found = []
    for pattern in PATTERNS if texts else ():
        share = sum(map(pattern.is_in, texts)) / len(texts)
        if share >= pattern.least_share:
            found.append(ValueMatch(pattern.kind, pattern.name, share))
    return sorted(found, key=lambda each: -each.share)
