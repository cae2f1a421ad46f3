"""Defines the Spark settings of one environment: `[env.NAME.spark]` of the project file, with secrets resolved."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waterclock.engine.spark.object_storage import confs_of_stores
from waterclock.engine.storage_access import reach_all
from waterclock.errors import WaterclockError
from waterclock.secrets.reader import Secrets
from waterclock.storage.spark_settings import PARTITIONS, SESSION_CONFS

if TYPE_CHECKING:
    from waterclock.dpl.project import Project

LOCAL = "local[*]"
# settings with a key of their own in the project file, which `confs` may not contain
_KEYS = {
    "spark.master": "master",
    "spark.driver.memory": "memory",
    "spark.pyspark.python": "python",
    "spark.jars.packages": "packages",
}
# settings that users cannot change, because Delta and this code depend on their values
_FIXED_SETTINGS = frozenset(
    {
        *(SESSION_CONFS.keys() - {PARTITIONS}),
        "spark.sql.extensions",
        "spark.sql.catalog.spark_catalog",
        "spark.sql.legacy.parameterSubstitution.constantsOnly",
        "spark.executorEnv.TZ",
    }
)
_ON_COMMAND_LINE = ("spark.driver.", "spark.jars", "spark.files", "spark.archives", "spark.submit.")
"""Settings needed to start a JVM, so on its command line. The others can be set in it before its session is opened."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The place where Spark runs, and the settings of Spark in the project's environment.

    `connect` is the address of a Spark Connect server, or None if a JVM is started here for `master`. `memory` is the
    driver's heap. `python` is the interpreter of the workers, None for this process's own path. `packages` are Maven
    coordinates that Spark fetches; `confs` are Spark's own settings. `schemes` are those of the object stores that
    Spark reads and writes. `secrets` names the settings that must not be on a command line, which every user of the
    machine can read.
    """

    master: str = LOCAL
    connect: str | None = None
    memory: str = "2g"
    python: str | None = None
    packages: tuple[str, ...] = ()
    confs: Mapping[str, str] = field(default_factory=dict)
    schemes: tuple[str, ...] = ()
    secrets: frozenset[str] = frozenset()

    @property
    def is_local(self) -> bool:
        """Whether Spark runs in a JVM that this process starts, and not on a cluster."""
        return self.master.startswith("local")


def settings_of(
    project: Project, tables: Collection[str] | None = None, *, also: Project | None = None
) -> SparkSettings:
    """Return the Spark settings of a project's environment, with access to the buckets of some tables, by default all.

    `also` is another environment whose storage Spark can read too. A branch can read those that it borrows from.

    Raises E225, E713 for settings that a user cannot set.
    """
    declared = project.spark
    taken = sorted(name for name in declared.confs if name in _FIXED_SETTINGS or name in _KEYS)
    if taken:
        raise _fixed_settings_error(taken, project.env)
    hidden = frozenset(name for name, value in declared.confs.items() if not isinstance(value, str))
    if shown := sorted(name for name in hidden if name.startswith(_ON_COMMAND_LINE)):
        raise _shown_secrets_error(shown, project.env)
    secrets = Secrets.from_places(project.secrets)
    confs = {name: secrets.value_of(value) for name, value in declared.confs.items()}
    if declared.connect and declared.master:
        raise _master_and_connect_error(project.env)
    others = (*(() if also is None else (also,)), *project.base_projects)
    of_all = (*reach_all(project, tables), *(store for other in others for store in reach_all(other, ())))
    stores = tuple(dict.fromkeys(of_all))
    of_stores = confs_of_stores(stores)
    return SparkSettings(
        declared.master or LOCAL,
        declared.connect,
        declared.memory,
        declared.python,
        tuple(declared.packages),
        {**of_stores, **confs},
        tuple(dict.fromkeys(store.scheme for store in stores)),
        hidden | frozenset(of_stores),
    )


def _shown_secrets_error(names: list[str], env: str) -> WaterclockError:
    return WaterclockError(
        "E713",
        f"{', '.join(names)} cannot be a secret",
        where=f"[env.{env}.spark] confs",
        why="the JVM is started with it on its command line, which every user of this machine can read",
        fix="write the value as text if it is no secret, or use a setting such as spark.hadoop.*",
    )


def _master_and_connect_error(env: str) -> WaterclockError:
    return WaterclockError(
        "E713",
        "master and connect exclude each other",
        where=f"[env.{env}.spark]",
        why="a Spark Connect server has its own master",
        fix="leave one of them out",
    )


def _fixed_settings_error(taken: list[str], env: str) -> WaterclockError:
    keys = [f"{_KEYS[name]} for {name}" for name in taken if name in _KEYS]
    fixes = [f"set {', '.join(keys)} in [env.{env}.spark]"] if keys else []
    if len(keys) < len(taken):
        fixes.append("leave the others out" if keys else "leave it out" if len(taken) == 1 else "leave them out")
    return WaterclockError(
        "E713",
        f"{', '.join(taken)} cannot be set",
        where=f"[env.{env}.spark] confs",
        why="with other values, rows would differ or could not be written",
        fix="; ".join(fixes),
    )
