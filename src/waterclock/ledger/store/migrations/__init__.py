"""Brings a ledger's tables to the newest schema. Imported only where there is something to bring."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config

if TYPE_CHECKING:
    import sqlalchemy as sa


def migrate(connection: sa.Connection) -> None:
    """Carry out all revisions that the database lacks, within the transaction that `connection` is in."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


__all__ = ["migrate"]
