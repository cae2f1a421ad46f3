"""Resolves where the secrets of an environment are stored, as the project file sets it, and checks the settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from waterclock.dpl.config.environment import VaultSection
from waterclock.dpl.config.model import Config
from waterclock.dpl.syntax.source_text import Span
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Connection, Place, Secret
from waterclock.secrets.credentials import hide_credentials
from waterclock.secrets.reader import SecretPlaces, VaultPlace, variable_of

_NEEDED = {"approle": ("role",), "kubernetes": ("role",), "certificate": ("certificate", "key"), "token": ()}
_OF_ONE = (("token", "token"), ("approle", "secret_id"))  # keys that only one auth method has


def secret_places(root: Path, config: Config) -> SecretPlaces:
    """Return the places of the environment's secrets. Relative paths are below the project's root."""
    environment = config.environment
    return SecretPlaces(
        root / environment.secrets, environment.keyring, _vault(root, environment.vault) if environment.vault else None
    )


def secret_place_errors(config: Config) -> list[WaterclockError]:
    """Return errors for missing and contradictory settings of Vault."""
    vault = config.environment.vault
    if vault is None:
        return []
    path = ("env", config.env, "vault")
    errors = []
    if not vault.url.startswith(("http://", "https://")):
        fix = "write one that begins with https:// or http://"
        errors.append(
            config.place((*path, "url")).refuse(
                "E242", f"{hide_credentials(vault.url)} is not the address of a Vault server", fix=fix
            )
        )
    errors += [
        config.place((*path, "auth")).refuse(
            "E242", f"auth {vault.auth} needs {key}", fix=f'add {key} = "…" below [{".".join(path)}]'
        )
        for key in _NEEDED[vault.auth]
        if getattr(vault, key) is None
    ]
    errors += [
        config.place((*path, key)).refuse(
            "E242", f"{key} belongs to auth {auth}", why=f"here auth is {vault.auth}",
            fix=f'leave it out, or write auth = "{auth}"',
        )
        for auth, key in _OF_ONE
        if auth != vault.auth and getattr(vault, key) is not None
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
    secrets: Iterable[tuple[str, Span | Place]] = chain(in_file, in_flow)
    for name, where in secrets:
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


def _secrets_in(setting: Any, path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not isinstance(setting, Mapping):
        return
    if set(setting) == {"secret"} and isinstance(setting["secret"], str):
        yield setting["secret"], path
    else:
        for key, value in setting.items():
            yield from _secrets_in(value, (*path, key))


def _vault(root: Path, section: VaultSection) -> VaultPlace:
    def file(path: str | None) -> Path | None:
        return root / path if path else None

    return VaultPlace(
        url=section.url.rstrip("/"),
        mount=section.mount.strip("/"),
        path=section.path,
        version=section.version,
        namespace=section.namespace,
        auth=section.auth,
        auth_mount=section.auth_mount,
        role=section.role,
        token=section.token.secret if section.token else None,
        secret_id=section.secret_id.secret if section.secret_id else None,
        certificate=file(section.certificate),
        key=file(section.key),
        ca=file(section.ca),
    )
