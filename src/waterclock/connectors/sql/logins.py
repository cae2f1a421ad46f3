"""Reads the address and the credentials of a database from the options of a connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from waterclock.connectors.interface import Setting
from waterclock.connectors.sql.addresses import WRITTEN, has_separator_in_password
from waterclock.errors import WaterclockError


def require_option(setting: Setting, name: str, kind: str, fix: str) -> str:
    """Return a required option of a connection, such as `url`. Raises E803 if it is missing.

    The error shows `kind`, a sentence about this type of connection, and `fix`, an example of the option.
    """
    value = setting.options.get(name)
    if not value:
        raise WaterclockError(
            "E803",
            f"the connection {setting.name} has no {name}",
            where=setting.name,
            why=kind,
            fix=f"add connections.{setting.name} = {{ {name} = '{fix}' }} to waterclock.toml",
        )
    return str(value)


def file_of(setting: Setting, type_name: str) -> tuple[str, float, bool]:
    """Return the path of a database file, its timeout in seconds, and whether publishing may create it.

    A relative path is below the project's folder.

    Raises E803 without a path.
    """
    kind = f"a connection of type {type_name} is a database file"
    path = require_option(setting, "path", kind, f"data/{setting.name}.{type_name}")
    timeout = float(str(setting.options.get("timeout", 5)))
    return str(setting.folder / path), timeout, bool(setting.options.get("create", False))


def url_of(setting: Setting, type_name: str, example: str) -> str:
    """Return the URL of a database on a server. Raises E803 if it is missing."""
    return require_option(setting, "url", f"a connection of type {type_name} is a database on a server", example)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The parts of a database server's URL; `more` are its query parameters."""

    host: str
    port: int
    database: str
    user: str | None
    password: str | None = field(repr=False)
    more: Mapping[str, str]


def parse_address(
    setting: Setting, schemes: tuple[str, ...], port: int, parameters: frozenset[str] = frozenset()
) -> ServerAddress:
    """Parse the URL of a connection. Raises E803 if it is missing or invalid."""
    example = f"{schemes[0]}://user@host:{port}/database"
    url = url_of(setting, schemes[0], example.replace(f":{port}", ""))
    if has_separator_in_password(url):
        raise unreadable_url(setting, WRITTEN, example)
    try:
        parts = urlsplit(url)
        port = parts.port or port
        more = {name: values[-1] for name, values in parse_qs(parts.query, strict_parsing=bool(parts.query)).items()}
    except ValueError:  # its message may contain a part of a password
        raise unreadable_url(setting, f"its port or its parameters are malformed; {WRITTEN}", example) from None
    database, unknown = unquote(parts.path.removeprefix("/")), sorted(set(more) - parameters)
    if parts.scheme not in schemes:
        raise unreadable_url(setting, f"it begins with {parts.scheme or 'nothing'}", example)
    if unknown or not database:
        why = f"its parameter {unknown[0]} is unknown" if unknown else "it names no database"
        raise unreadable_url(setting, why, example)
    user, password = (unquote(one) if one else None for one in (parts.username, parts.password))
    return ServerAddress(parts.hostname or "localhost", port, database, user, password, more)


def unreadable_url(setting: Setting, why: str, example: str) -> WaterclockError:
    """Build the error for a URL that cannot be parsed. `why` must not contain any part of a password."""
    return WaterclockError(
        "E803",
        f"the url of the connection {setting.name} cannot be read",
        where=setting.name,
        why=why,
        fix=f"write {example}, and a password as {{ secret = '...' }}",
    )


def login_files(setting: Setting, parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the paths of the certificate, its key and the CAs, by the names of the driver's parameters.

    Raises E803 for a certificate without its key, and for a key without its certificate.
    """
    options = {key: str(value) for key, value in setting.options.items()}
    if ("certificate" in options) != ("key" in options):
        missing = "key" if "certificate" in options else "certificate"
        raise WaterclockError(
            "E803",
            f"the connection {setting.name} has no {missing}",
            where=setting.name,
            why="a client certificate and its key are two files",
            fix=f"set connections.{setting.name}.{missing} = "
            f"'certificates/client.{'key' if missing == 'key' else 'crt'}'",
        )
    return {
        parameter: str(setting.folder / options[option])
        for option, parameter in parameters.items()
        if option in options
    }
