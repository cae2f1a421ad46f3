"""Upgrades a ledger's tables to the newest schema. Imported only if an upgrade is needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config

if TYPE_CHECKING:
    import sqlalchemy as sa

SCRIPTS = Path(__file__).parent  # env.py, and the revisions in versions/


def migrate(connection: sa.Connection) -> None:
    """Run all revisions that the database is missing, within the current transaction of `connection`."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


__all__ = ["migrate"]
