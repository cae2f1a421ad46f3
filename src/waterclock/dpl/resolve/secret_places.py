"""Where an environment's secrets may lie, as the project file says it."""

from __future__ import annotations

from pathlib import Path

from waterclock.dpl.config.model import Config, VaultSaid
from waterclock.errors import WaterclockError
from waterclock.secrets import SecretPlaces, VaultPlace

_NEEDED = {"approle": ("role",), "kubernetes": ("role",), "certificate": ("certificate", "key"), "token": ()}
_OF_ONE = (("token", "token"), ("approle", "secret_id"))  # what one way of being known takes alone


def secret_places(root: Path, config: Config) -> SecretPlaces:
    """Return where secrets of the chosen environment may lie; files are below the project's root unless absolute."""
    said = config.environment
    return SecretPlaces(root / said.secrets, said.keyring, _vault(root, said.vault) if said.vault else None)


def secret_place_errors(config: Config) -> list[WaterclockError]:
    """Return what does not fit together of the ways in which we are known to Vault, each with its place."""
    said = config.environment.vault
    if said is None:
        return []
    path = ("env", config.env, "vault")
    errors = []
    if not said.url.startswith(("http://", "https://")):
        fix = "it begins with https:// or http://"
        errors.append(config.place((*path, "url")).refuse("E242", f"{said.url} is no address of Vault", fix=fix))
    errors += [
        config.place((*path, "auth")).refuse(
            "E242", f"auth {said.auth} needs {key}", fix=f'add {key} = "…" below [{".".join(path)}]'
        )
        for key in _NEEDED[said.auth]
        if getattr(said, key) is None
    ]
    errors += [
        config.place((*path, key)).refuse(
            "E242", f"{key} is of auth {auth}", why=f"here auth is {said.auth}",
            fix=f'leave it out, or write auth = "{auth}"',
        )
        for auth, key in _OF_ONE
        if auth != said.auth and getattr(said, key) is not None
    ]  # fmt: skip
    return errors


def _vault(root: Path, said: VaultSaid) -> VaultPlace:
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
