"""Stores each erasure as a file of the storage, so that a ledger that is rebuilt without an export still knows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from waterclock.batches.erasures import COLUMNS, Erasure
from waterclock.files.filesystem import entry_path, make_folder, names_in, put_if_absent, read_json, replace_text

FOLDER = "erasures"
_RECORD = ".json"


def write_erasure(root: str, erasure: Erasure) -> None:
    """Write the file of an erasure, with hashes only, unless it exists."""
    folder = entry_path(root, FOLDER)
    make_folder(folder)
    record = {
        "number": erasure.number,
        "subject": erasure.subject,
        "key": erasure.key,
        "who": erasure.who,
        "why": erasure.why,
        "at": erasure.at.isoformat(),
        "hashes": sorted(erasure.hashes),
        "columns": {table: list(names) for table, names in erasure.columns.items()},
    }
    put_if_absent(folder / f"{erasure.number}{_RECORD}", json.dumps(record, indent=1))


def read_erasures(root: str) -> list[Erasure]:
    """Read the files of all erasures of a storage."""
    folder = entry_path(root, FOLDER)
    names = [name for name in names_in(folder, "") if name.removesuffix(_RECORD).isdecimal()]
    records = [record for name in names if (record := read_json(folder / name)) is not None]
    return sorted(map(_parse, records), key=lambda each: each.number)


def write_certificate(root: str, number: int, certificate: Mapping[str, Any], text: str) -> str:
    """Write the certificate of an erasure as JSON and as text. Return the path of the text."""
    folder = entry_path(root, FOLDER)
    make_folder(folder)
    replace_text(folder / f"{number}.certificate.json", json.dumps(certificate, indent=1, default=str))
    path = folder / f"{number}.certificate.txt"
    replace_text(path, text)
    return str(path)


def _parse(record: Mapping[str, Any]) -> Erasure:
    return Erasure(
        int(record["number"]),
        record["subject"],
        record["key"],
        record["who"],
        record["why"],
        datetime.fromisoformat(record["at"]),
        frozenset(record["hashes"]),
        steps={f"{COLUMNS}{table}": {"columns": names} for table, names in record["columns"].items()},
    )
