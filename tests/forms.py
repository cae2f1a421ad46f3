"""Databases of forms for tests, in a SQLite file or a schema of the tests' PostgreSQL server, and their content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests import postgres
from waterclock.connectors.forms.changes import Applied, Edit, apply
from waterclock.connectors.forms.connector import forms_database_of
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.connectors.forms.history import find_row
from waterclock.connectors.interface import Setting
from waterclock.flow.form_rights import FormRights
from waterclock.flow.forms import Entity, FormField

KINDS = ["sqlite", "postgres"]
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)

PRODUCTS = Entity(
    "product_map",
    "forms",
    "mdm.product_map",
    (
        FormField("supplier_sku", "STRING", is_key=True, is_required=True),
        FormField("sku", "STRING", is_required=True),
        FormField("pack_size", "INT"),
        FormField("remark", "STRING"),
    ),
)


@dataclass
class SetClock:
    """A clock that shows the time that the test sets."""

    at: datetime = BEGIN

    def __call__(self) -> datetime:
        return self.at

    def advance(self, **by: float) -> datetime:
        """Advance the clock, and return its time."""
        self.at += timedelta(**by)
        return self.at


@dataclass
class FormsPlace:
    """A database of forms, and the options of its connection."""

    setting: Setting
    clock: SetClock = field(default_factory=SetClock)

    @property
    def database(self) -> FormsDatabase:
        """The database, newly opened, with the clock of the test."""
        return replace(forms_database_of(self.setting), clock=self.clock)


def place_of(kind: str, folder: Path) -> FormsPlace:
    """Return an empty database of forms."""
    options: dict[str, str] = {}
    if kind == "postgres":
        schema = postgres.server().fresh_schema()
        postgres.server().run(f"CREATE SCHEMA {schema}")
        options = {"url": postgres.server().url, "schema": schema}
    return FormsPlace(Setting("forms", options, folder, folder / "storage" / "archive"))


def save(
    database: FormsDatabase,
    key: str,
    values: Mapping[str, str | None] | None,
    version: int | None = None,
    why: str = "test",
) -> Applied:
    """Save one row of `PRODUCTS`, or delete it, based on this version."""
    return apply(database, PRODUCTS, by=FormRights("ada"), why=why, edits=[Edit((key,), values, version)])


def version_of(database: FormsDatabase, key: str) -> int | None:
    """Return the version of a row of `PRODUCTS`; None if there is none."""
    row = find_row(database, PRODUCTS, (key,))
    return None if row is None else row.version
