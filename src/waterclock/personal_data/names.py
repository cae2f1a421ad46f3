"""Recognizes columns with personal data by their names, in English and German.

`NAMES` is the only table of names. Words are separated by spaces and written without umlauts and accents.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

NAMES: Mapping[str, tuple[str, ...]] = {
    "email": ("email", "e mail", "mail address", "mailadresse", "emailadresse"),
    "phone": (
        "phone", "phone number", "telephone", "mobile", "mobile number", "cell phone", "fax", "fax number", "msisdn",
        "telefon", "telefonnummer", "handy", "handynummer", "mobilnummer", "mobiltelefon", "rufnummer", "faxnummer",
    ),
    "name": (
        "first name", "last name", "full name", "given name", "family name", "middle name", "maiden name", "surname",
        "forename", "person name", "customer name", "contact name", "employee name", "patient name", "vorname",
        "nachname", "familienname", "geburtsname", "kundenname", "ansprechpartner",
    ),
    "address": (
        "street", "street address", "home address", "postal address", "billing address", "shipping address",
        "address line", "house number", "postcode", "post code", "postal code", "zip", "zip code", "strasse",
        "hausnummer", "anschrift", "postanschrift", "lieferadresse", "rechnungsadresse", "plz", "postleitzahl",
    ),
    "birth date": (
        "birth date", "date of birth", "birthday", "dob", "born", "born on", "year of birth", "birth year",
        "geburtsdatum", "geburtstag", "geburtsjahr", "geb datum", "geboren", "geboren am",
    ),
    "bank account": (
        "iban", "bank account", "account number", "bank account number", "kontonummer", "bankkonto", "bankverbindung",
    ),
    "card number": (
        "card number", "credit card", "credit card number", "debit card number", "kartennummer", "kreditkarte",
        "kreditkartennummer",
    ),
    "national id": (
        "ssn", "social security number", "national id", "national insurance number", "nino", "tax id", "tin",
        "passport", "passport number", "identity card", "id card number", "driver license", "driving licence",
        "driver license number", "steuer id", "steueridentifikationsnummer", "steuernummer",
        "sozialversicherungsnummer", "rentenversicherungsnummer", "svnr", "ahv", "ahv nummer", "personalausweis",
        "ausweisnummer", "reisepass", "reisepassnummer", "fuehrerschein", "fuehrerscheinnummer", "nif",
        "nie", "dni", "codice fiscale", "pesel",
    ),
    "ip address": ("ip", "ip address", "ip addr", "client ip", "remote addr", "ip adresse"),
    "device": ("mac address", "imei", "device id", "advertising id", "idfa", "geraete id"),
    "account": ("user name", "login", "login name", "benutzername", "nutzername", "anmeldename"),
    "special": (
        "gender", "sex", "religion", "ethnicity", "nationality", "marital status", "diagnosis", "blood type",
        "geschlecht", "konfession", "staatsangehoerigkeit", "nationalitaet", "familienstand", "diagnose", "blutgruppe",
    ),
    "income": ("salary", "income", "wage", "gehalt", "einkommen", "lohn"),
}  # fmt: skip
"""Names by kind of personal data. A column matches if its words contain the words of a name in this order."""

OF_PEOPLE = frozenset(
    "person people customer client user employee patient member contact subscriber guest passenger student teacher "
    "driver applicant lead kunde kunden benutzer nutzer mitarbeiter angestellter personal patienten mitglied "
    "mitglieder kontakt kontakte gast gaeste fahrer bewerber schueler lehrer ansprechpartner".split()
)
"""Words in the names of tables of people, singular or plural. Columns `name` and `address` there are personal data."""

IN_TABLES_OF_PEOPLE: Mapping[str, str] = {"name": "name", "address": "address", "adresse": "address", "notes": "text"}

_NEUTRAL_ENDS = frozenset(
    "id key hash count n at on flag status type kind verified valid sent opened clicked domain format code length "
    "provider template subject anzahl typ art stand geprueft bestaetigt consent opt group range band class rate "
    "campaign server host version bucket total avg mean median".split()
)
_NEUTRAL_STARTS = frozenset("is has num n count total number ist hat anzahl avg mean median max min sum".split())
_TEXT_ONLY = frozenset({"email", "name", "address", "ip address", "account", "special", "device"})
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal", "long", "integer")
_ZIP = frozenset({"zip", "zip code", "plz", "postleitzahl", "postcode", "post code", "postal code", "house number"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"})
_DATES = ("date", "timestamp", "timestamp_ntz", "string", "int", "smallint", "bigint", "year")


def words_of(name: str) -> tuple[str, ...]:
    """Split a name into lower-case words at underscores, case changes and digits, without umlauts and accents.

    Example:
        >>> words_of("KundenStraße_2")
        ('kunden', 'strasse', '2')
    """
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFC", name).translate(_UMLAUTS))
    plain = "".join(sign for sign in plain if not unicodedata.combining(sign))
    return tuple(word.lower() for word in _WORD.findall(plain))


def kind_by_name(column: str, type_name: str | None, table: str = "") -> str | None:
    """Return the kind of personal data that the name of a column suggests, or None.

    Args:
        column: The column's name; for a field of a struct, the name of the field.
        type_name: The column's Spark type, or None if it is not known. A type that cannot contain the kind excludes it.
        table: The table's name. In a table of people, `name` and `address` are those of a person.

    Returns:
        A key of NAMES or a value of IN_TABLES_OF_PEOPLE.

    Example:
        >>> kind_by_name("customerEmail", "string"), kind_by_name("email_count", "bigint")
        ('email', None)
    """
    words = words_of(column)
    if not words or words[0] in _NEUTRAL_STARTS:
        return None
    for kind, names in NAMES.items():
        for name in sorted(names, key=len, reverse=True):
            if _contains(words, name.split()) and _fits(kind, name, type_name):
                return kind
    of_people = any(_singular(word) in OF_PEOPLE or word in OF_PEOPLE for word in words_of(table))
    kind_of_people = IN_TABLES_OF_PEOPLE.get(words[-1]) if of_people and len(words) == 1 else None
    return kind_of_people if kind_of_people and _fits("name", "", type_name) else None


def _contains(words: Sequence[str], name: Sequence[str]) -> bool:
    """Return whether words contain a name, however it is split, without a later word such as `count` or `type`."""
    joined = "".join(name)
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            if "".join(words[start:end]) == joined and not _NEUTRAL_ENDS.intersection(words[end:]):
                return True
    return False


def _fits(kind: str, name: str, type_name: str | None) -> bool:
    """Return whether a type can contain a kind of personal data."""
    if type_name is None:
        return True
    plain = type_name.lower().partition("(")[0]
    if kind == "birth date":
        return plain in _DATES
    if plain in {"boolean", "binary", "date", "timestamp", "timestamp_ntz"} or plain.startswith(("struct", "map")):
        return False
    if kind in _TEXT_ONLY and plain != "string":
        return plain.startswith("array<string") or (name in _ZIP and plain in _NUMBERS)
    return plain not in {"float", "double"} or kind == "income"


def _singular(word: str) -> str:
    return word.removesuffix("s")
