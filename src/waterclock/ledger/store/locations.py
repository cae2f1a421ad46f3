"""Manages the file or schema of a ledger. A new ledger is built as a draft, which is then moved into place."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from waterclock.faults import fault
from waterclock.ledger import ledger_errors
from waterclock.ledger.store import postgres
from waterclock.ledger.store.backend import parse_url, translate_database_errors
from waterclock.permissions.ownership import make_private_folder
from waterclock.similar_names import find_similar

if TYPE_CHECKING:
    import sqlalchemy as sa

_DRAFT = "rebuilding"
_ASIDE = re.compile(r"_\d{8}t\d{6}z$")  # the suffix of ledgers that `install_draft` moved away


class LedgerPlace(Protocol):
    """The file or schema of a ledger. Every method can be called again after an interruption."""

    @property
    def name(self) -> str:
        """The name for display, without a password."""

    def is_taken(self) -> bool:
        """Return whether the file or schema exists and is not empty."""

    def others(self, project: str) -> list[str]:
        """Return other schemas of the database with a ledger of the project, similar names first; none for a file."""

    def empty_draft(self) -> str:
        """Delete any existing draft, and return the URL for a new one."""

    def install_draft(self, at: datetime, *, replaces: bool) -> str | None:
        """Move the draft into place. Return where the replaced ledger was moved to; None if there was none.

        `replaces` allows moving an existing ledger away. Raises E416 if the place cannot be written, E417 if a ledger
        was created there meanwhile.
        """


def place_of(url: str) -> LedgerPlace:
    """Return the file or schema at a ledger's URL."""
    parsed = parse_url(url)
    return _LedgerFile(Path(str(parsed.database))) if parsed.get_backend_name() == "sqlite" else _Schema(parsed)


def check_ledger_url(url: str) -> None:
    """Check the URL of a ledger without connecting. Raises E403 for an invalid one, E424 without a driver."""
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        postgres.create_engine(parsed).dispose()


def redact_url_text(url: str) -> str:
    """Return a ledger's URL for display, without its password."""
    return url if url.startswith("sqlite:///") else ledger_errors.redact_url(parse_url(url))


@dataclass(frozen=True, slots=True)
class _LedgerFile:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def is_taken(self) -> bool:
        return self.path.exists() and self.path.stat().st_size > 0

    def others(self, project: str) -> list[str]:  # noqa: ARG002 - a file is a database by itself
        return []

    def empty_draft(self) -> str:
        for path in _files_of(self._draft):
            path.unlink(missing_ok=True)
        make_private_folder(self._draft.parent)
        return f"sqlite:///{self._draft}"

    def install_draft(self, at: datetime, *, replaces: bool) -> str | None:
        if not replaces and self.is_taken():
            raise ledger_errors.existing_ledger_error(self.name, may_force=False)
        # an old ledger's remaining write-ahead log would be replayed into this one
        aside = self._move_old_ledger(at) if any(path.exists() for path in _files_of(self.path)) else None
        try:
            os.link(self._draft, self.path)  # fails if a ledger was created there meanwhile
        except FileExistsError as error:
            raise ledger_errors.existing_ledger_error(self.name, may_force=replaces) from error
        fault("ledger installed")
        self._draft.unlink()
        return aside

    @property
    def _draft(self) -> Path:
        return self.path.with_name(f"{self.path.name}.{_DRAFT}")

    def _move_old_ledger(self, at: datetime) -> str:
        aside = self.path.with_name(f"{self.path.name}.{at:%Y%m%dT%H%M%SZ}")
        for old, new in zip(_files_of(self.path), _files_of(aside), strict=True):
            if old.exists():
                old.rename(new)
        return str(aside)


def _files_of(database: Path) -> list[Path]:
    return [database.with_name(database.name + suffix) for suffix in ("", "-wal", "-shm")]


@dataclass(frozen=True, slots=True)
class _Schema:
    url: sa.URL

    @property
    def name(self) -> str:
        return ledger_errors.redact_url(self.url)

    def is_taken(self) -> bool:
        with open_server(self.url) as engine:
            return postgres.exists(engine, self.url)

    def others(self, project: str) -> list[str]:
        own = postgres.schema_of(self.url)
        with open_server(self.url) as engine:
            found = postgres.schemas_of(engine, project)
        others = [name for name in found if name not in {own, self._draft} and not _ASIDE.search(name)]
        return list(dict.fromkeys([*find_similar(own, others), *others]))

    def empty_draft(self) -> str:
        with open_server(self.url) as engine:
            postgres.drop(engine, self._draft)
        return postgres.set_schema(self.url, self._draft).render_as_string(hide_password=False)

    def install_draft(self, at: datetime, *, replaces: bool) -> str | None:
        schema = postgres.schema_of(self.url)
        aside = f"{schema}_{at:%Y%m%dT%H%M%SZ}".lower()
        with open_server(self.url) as engine:
            is_moved = postgres.install_draft(engine, draft=self._draft, schema=schema, aside=aside, replaces=replaces)
        if is_moved is None:
            raise ledger_errors.existing_ledger_error(self.name, may_force=False)
        return f"schema {aside}" if is_moved else None

    @property
    def _draft(self) -> str:
        return f"{postgres.schema_of(self.url)}_{_DRAFT}"


@contextmanager
def open_server(url: sa.URL) -> Iterator[sa.Engine]:
    """Open a server for operations on a whole schema, and convert its errors into the ledger's errors."""
    engine = postgres.create_engine(url)
    try:
        with translate_database_errors(url):
            yield engine
    finally:
        engine.dispose()
