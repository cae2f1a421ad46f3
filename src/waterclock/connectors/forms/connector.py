"""The connection type `forms`: tables of master data, which people edit on the pages and with `waterclock edit`.

Connection      `url`: sqlite:///path, relative to the project's folder, or postgresql://user@host/database; `password`.
                Without a url: the file `forms.sqlite` in the project's storage.
Unit            The name of a form. The column list of the COLLECT declares its fields; no second schema exists.
Option          `approval`: changes are proposals, which another person approves (see `proposals`).
Without a BY    The rows as of the end of each window, from the history of changes, also for windows long ago.
Publish         MERGE inserts keys that the form never had, and changes no row (see `delivery`).
Clock           That of the server; this machine's for a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import ConnectionType, Setting
from waterclock.connectors.sql.capabilities import LOGIN
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities, Option
from waterclock.flow.enums import Batching, Mode
from waterclock.flow.forms import APPROVAL, FORMS

if TYPE_CHECKING:
    from waterclock.connectors.forms.collection import FormsCollector
    from waterclock.connectors.forms.database import FormsDatabase

CAPABILITIES = Capabilities(
    type=FORMS,
    connection_options={
        "url": Option(
            is_address=True,
            schemes=("sqlite", "postgresql", "postgres"),
            help="the database, as sqlite:///data/forms.sqlite or postgresql://user@host/database; default the file "
            "forms.sqlite in the storage",
        ),
        "password": Option(is_secret=True, help="the user's password at a PostgreSQL server, as a secret"),
        **LOGIN,
        "schema": Option(help="the schema of the tables in PostgreSQL; default the user's own"),
        "timeout": Option("number", help="seconds to wait for another writer; default 30"),
    },
    collect_options={
        APPROVAL: Option("flag", help="a change is a proposal until another person than its author approves it"),
    },
    collects=frozenset({Batching.AS_OF}),
    publishes=frozenset({Mode.MERGE}),
)


def _open_source(setting: Setting) -> FormsCollector:
    from waterclock.connectors.forms.collection import FormsCollector

    return FormsCollector(forms_database_of(setting))


def _open_destination(setting: Setting) -> Deliverer:
    from waterclock.connectors.forms.delivery import FormsPostgresDeliverer, FormsSqliteDeliverer
    from waterclock.connectors.sqlite.database import SqliteFile

    forms = forms_database_of(setting)
    if isinstance(forms.database, SqliteFile):
        return FormsSqliteDeliverer(forms.database, forms)
    return FormsPostgresDeliverer(forms.database, forms)


def forms_database_of(setting: Setting) -> FormsDatabase:
    """Return the database of a forms connection, without connecting to it. Raises E803 for an invalid url."""
    from waterclock.connectors.forms.database import FormsDatabase
    from waterclock.connectors.sqlite.database import SqliteFile

    url, timeout = setting.options.get("url"), float(str(setting.options.get("timeout", 30)))
    if url is None:
        if type(setting.archive) is not type(Path()):
            raise _url_error(setting, "the storage is not on this machine", "name a database that all runners reach")
        path = setting.archive.parent / "forms.sqlite"
    elif str(url).startswith("sqlite:///"):
        path = setting.folder / str(url).removeprefix("sqlite:///")
    elif str(url).startswith(("postgresql://", "postgres://")):
        from waterclock.connectors.postgres.database import database_of

        server = database_of(setting)
        return FormsDatabase(server, server.name, is_server=True)
    else:
        raise _url_error(
            setting, "it is neither a SQLite file nor a PostgreSQL database", "write sqlite:///data/forms.sqlite"
        )
    return FormsDatabase(SqliteFile(str(path), timeout, may_create=True), str(path), is_server=False)


def _url_error(setting: Setting, why: str, fix: str) -> WaterclockError:
    return WaterclockError(
        "E803", f"the connection {setting.name} has no usable url", where=setting.name, why=why, fix=fix
    )


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)
