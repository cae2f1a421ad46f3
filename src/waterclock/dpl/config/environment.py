"""Defines the sections of an environment in the project file, and resolves those of branches."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from waterclock.dpl.config.branches import chain_of_bases, inherited_settings
from waterclock.dpl.config.secret_setting import SecretSetting
from waterclock.dpl.config.sections import MaintenanceSection, SignInSection, UserSection
from waterclock.errors import WaterclockError
from waterclock.similar_names import did_you_mean

Scalar = str | int | float | bool | dt.datetime | dt.date
UNDECLARED = "dev"
"""The name of the environment of a project file that declares none."""
_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


class SparkSection(BaseModel):
    """The section [env.NAME.spark]: master or Spark Connect URL, driver memory, Python, packages, Spark settings."""

    model_config = _STRICT
    master: str | None = None
    connect: str | None = None
    memory: str = "2g"
    python: str | None = None
    packages: list[str] = Field(default_factory=list)
    confs: dict[str, str | int | float | bool | SecretSetting] = Field(default_factory=dict)


class VaultSection(BaseModel):
    """The section [env.NAME.vault]: the path of secrets in Vault, and the login. Relative files are in the project."""

    model_config = _STRICT
    url: str
    mount: str = "secret"
    path: str = ""
    version: Literal[1, 2] = 2
    namespace: str | None = None
    auth: Literal["token", "approle", "kubernetes", "certificate"] = "token"
    auth_mount: str | None = None
    role: str | None = None
    token: SecretSetting | None = None
    secret_id: SecretSetting | None = None
    certificate: str | None = None
    key: str | None = None
    ca: str | None = None


class Environment(BaseModel):
    """The section [env.NAME]: the settings of one environment.

    `from` makes it a branch of another one, whose settings it inherits and whose tables it borrows. `sandbox` has the
    options of connections that publishes of a branch deliver to.
    `ledger` is a URL, or `{ secret = "name" }` for a URL that contains a password. `catalog` is the address of a Hive
    metastore. `secrets` is a folder with files that contain secrets. `keyring` is the name of a service in the system's
    keyring.
    """

    model_config = _STRICT
    from_: str | None = Field(default=None, alias="from")
    storage: str = ".waterclock"
    storage_options: dict[str, str | bool | SecretSetting] = Field(default_factory=dict)
    ledger: str | SecretSetting | None = None
    publish: bool = False
    alerts: bool = False
    openlineage: bool = False
    catalog: str | None = None
    secrets: str = "secrets"
    keyring: str | None = None
    vault: VaultSection | None = None
    connections: dict[str, dict[str, Any]] = Field(default_factory=dict)
    sandbox: dict[str, dict[str, Any]] = Field(default_factory=dict)
    vars: dict[str, Scalar] = Field(default_factory=dict)
    pools: dict[str, int] = Field(default_factory=dict)
    spark: SparkSection = Field(default_factory=SparkSection)
    roles: dict[str, list[str]] = Field(default_factory=dict)
    users: dict[str, UserSection] = Field(default_factory=dict)
    sign_in: SignInSection | None = None
    maintenance: MaintenanceSection | None = None


def resolve_environment(
    name: str, declared: Mapping[str, Environment]
) -> tuple[Environment, tuple[tuple[str, Environment], ...]]:
    """Return an environment with the settings that it inherits, and those that it borrows from, the nearest first.

    Raises E243 if it is a branch of itself or of an unknown environment.
    """
    chain = chain_of_bases(name, {each: section.from_ for each, section in declared.items()})
    if chain is None:
        fix = "name another environment in `from`"
        raise WaterclockError("E243", f"{name} is a branch of itself", why="a branch borrows another's tables", fix=fix)
    if chain[-1] not in declared:
        known = [each for each in declared if each != name]
        raise WaterclockError(
            "E243",
            f"unknown environment {chain[-1]}",
            why=f"{chain[-2]} is a branch of it",
            fix=did_you_mean(chain[-1], known, otherwise="name an environment of the project file in `from`"),
        )
    found, bases = declared[chain[-1]], list[tuple[str, Environment]]()
    for each, base in zip(reversed(chain[:-1]), reversed(chain[1:]), strict=True):
        bases.insert(0, (base, found))
        section = declared[each]
        own = {key: getattr(section, key) for key in section.model_fields_set}
        inherited = {key: getattr(found, key) for key in Environment.model_fields}
        defaults = {key: getattr(Environment(), key) for key in Environment.model_fields}
        found = Environment.model_construct(None, **defaults | inherited_settings(each, own, inherited))
    return found, tuple(bases)


def settings_without_base(name: str, section: Environment) -> Environment:
    """Return the settings of a branch whose base is unknown: those of its own section, and its own storage."""
    return resolve_environment(name, {name: section.model_copy(update={"from_": ""}), "": Environment()})[0]
