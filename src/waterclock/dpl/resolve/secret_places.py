"""Resolves where the secrets of an environment are stored, as the project file sets it, and checks the settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from waterclock.dpl.config.model import Config, VaultSection
from waterclock.dpl.syntax.source_text import Span
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Connection, Place, Secret
from waterclock.secrets.credentials import hide_credentials
from waterclock.secrets.reader import SecretPlaces, VaultPlace, variable_of

_NEEDED = {"approle": ("role",), "kubernetes": ("role",), "certificate": ("certificate", "key"), "token": ()}
_OF_ONE = (("token", "token"), ("approle", "secret_id"))  # keys that only one auth method has


def secret_places(root: Path, config: Config) -> SecretPlaces:
    """Return the places of the environment's secrets. Relative paths are below the project's root."""
    said = config.environment
    return SecretPlaces(root / said.secrets, said.keyring, _vault(root, said.vault) if said.vault else None)


def secret_place_errors(config: Config) -> list[WaterclockError]:
    """Return errors for missing and contradictory settings of Vault."""
    said = config.environment.vault
    if said is None:
        return []
    path = ("env", config.env, "vault")
    errors = []
    if not said.url.startswith(("http://", "https://")):
        fix = "write one that begins with https:// or http://"
        errors.append(
            config.place((*path, "url")).refuse(
                "E242", f"{hide_credentials(said.url)} is not the address of a Vault server", fix=fix
            )
        )
    errors += [
        config.place((*path, "auth")).refuse(
            "E242", f"auth {said.auth} needs {key}", fix=f'add {key} = "…" below [{".".join(path)}]'
        )
        for key in _NEEDED[said.auth]
        if getattr(said, key) is None
    ]
    errors += [
        config.place((*path, key)).refuse(
            "E242", f"{key} belongs to auth {auth}", why=f"here auth is {said.auth}",
            fix=f'leave it out, or write auth = "{auth}"',
        )
        for auth, key in _OF_ONE
        if auth != said.auth and getattr(said, key) is not None
    ]  # fmt: skip
    return errors


def shared_variable_errors(config: Config, connections: Iterable[Connection]) -> list[WaterclockError]:
    """Return errors for secrets whose names differ and that would be read from the same environment variable."""
    in_file = ((name, config.place(path)) for name, path in _list_config_secrets(config))
    in_flow = (
        (value.name, each.place) for each in connections for value in each.options.values() if isinstance(value, Secret)
    )
    first: dict[str, str] = {}
    errors: list[WaterclockError] = []
    named: set[str] = set()
    said: Iterable[tuple[str, Span | Place]] = chain(in_file, in_flow)
    for name, where in said:
        known = first.setdefault(variable_of(name), name)
        if name in named or known == name:
            continue
        named.add(name)
        error = WaterclockError(
            "E225",
            f"secrets {known} and {name} are read from one variable",
            where=str(where),
            why=f"{variable_of(name)} would set both of them",
            fix="rename one of them, or use the same name for both if they are the same secret",
        )
        errors.append(error if isinstance(where, Place) else where.locate_error(error))
    return errors


def _list_config_secrets(config: Config) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the secrets that the project file names for the environment, each with the path of its key."""
    yield from _secrets_in(config.environment.model_dump(), ("env", config.env))
    yield from _secrets_in(config.alerts, ("alerts",))
    yield from _secrets_in(config.openlineage, ("openlineage",))


def _secrets_in(said: Any, path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not isinstance(said, Mapping):
        return
    if set(said) == {"secret"} and isinstance(said["secret"], str):
        yield said["secret"], path
    else:
        for key, value in said.items():
            yield from _secrets_in(value, (*path, key))


def _vault(root: Path, said: VaultSection) -> VaultPlace:
    def file(path: str | None) -> Path | None:
        return root / path if path else None

    return VaultPlace(
        url=said.url.rstrip("/"),
        mount=said.mount.strip("/"),
        path=said.path,
        version=said.version,
        namespace=said.namespace,
        auth=said.auth,
        auth_mount=said.auth_mount,
        role=said.role,
        token=said.token.secret if said.token else None,
        secret_id=said.secret_id.secret if said.secret_id else None,
        certificate=file(said.certificate),
        key=file(said.key),
        ca=file(said.ca),
    )
