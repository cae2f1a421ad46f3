"""Loads a project for one environment: its project file, its statements, and the flow that they declare."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.dpl.config.branches import recorded_chain
from waterclock.dpl.config.file_name import FILE
from waterclock.dpl.project_cache import CachedProject, digest_of, key_of, read_cached_project, write_cached_project
from waterclock.dpl.project_files import no_project_error, not_utf8_error, read_project_file, read_sources
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.files.object_stores import bucket_of, is_remote, options_of, unknown_option_error
from waterclock.flow.alerts import Alerting
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.declarations import Flow, Place, Secret, Table
from waterclock.flow.maintenance_hours import MaintenanceHours
from waterclock.flow.metastore import Metastore
from waterclock.flow.openlineage import LineageSink
from waterclock.permissions.users_and_roles import AccessRules
from waterclock.secrets.reader import SecretPlaces, Secrets
from waterclock.spark_sql import option_text

if TYPE_CHECKING:
    from waterclock.dpl.config.environment import Environment, SparkSection
    from waterclock.dpl.config.model import Config
    from waterclock.dpl.config.secret_setting import SecretSetting
    from waterclock.dpl.resolve.schemas import RecordedColumns
    from waterclock.dpl.syntax.statements import Statement

WORK = ".waterclock"
_ENV = "WATERCLOCK_ENV"
# a backslash, a percent-encoded character, control characters and lone surrogates
_NO_PATH_OF_DELTA = re.compile(r"\\|%[0-9A-Fa-f]{2}|[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class SparkDeclaration:
    """The Spark settings of an environment; each value in `confs` is a text or a reference to a secret."""

    master: str | None = None
    connect: str | None = None
    memory: str = "2g"
    python: str | None = None
    packages: tuple[str, ...] = ()
    confs: Mapping[str, str | Secret] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BaseEnvironment:
    """The environment of which another one is a branch: its name, and the locations of its storage and its ledger."""

    env: str
    storage: str
    ledger: str | Secret
    storage_options: Mapping[str, str | Secret] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Project:
    """A loaded project: its flow and its settings for one environment.

    `storage` and `ledger` are absolute paths if they are local; a secret with the ledger's URL is read when the ledger
    is opened. `publish` is True if the environment delivers to destinations; otherwise publishes are staged only. A
    branch delivers only to the connections in `sandbox`, and `publish` is True if there are any.
    `bases` are the environments that a branch borrows from, the nearest first; empty for other environments.
    """

    root: Path
    name: str
    env: str
    storage: str
    ledger: str | Secret
    publish: bool
    flow: Flow
    pools: Mapping[str, int]
    variables: Mapping[str, Any]
    secrets: SecretPlaces
    spark: SparkDeclaration = field(default_factory=SparkDeclaration)
    storage_options: Mapping[str, str | Secret] = field(default_factory=dict)
    owner: str | None = None
    alerts: Alerting = field(default_factory=Alerting)
    openlineage: LineageSink = field(default_factory=LineageSink)
    access: AccessRules = field(default_factory=AccessRules)
    maintenance: MaintenanceHours | None = None
    catalog: Metastore | None = None
    files: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    bases: tuple[BaseEnvironment, ...] = ()
    sandbox: frozenset[str] = frozenset()

    def delivers(self, table: Table) -> bool:
        """Return whether the environment delivers a publish to its destination."""
        return table.destination is not None and self.delivers_to(table.destination.connection)

    def delivers_to(self, connection: str) -> bool:
        """Return whether the environment delivers to a connection: a branch only to those of its sandbox."""
        return self.publish and (not self.bases or connection in self.sandbox)

    def why_not_delivered(self, connection: str) -> str:
        """Return why the environment delivers nothing to a connection, for a message."""
        if self.bases:
            return f"the branch {self.env} has no sandbox.{connection}"
        return f"`publish = false` in env {self.env}"

    @property
    def base_project(self) -> Project | None:
        """This project with the storage and the ledger of the environment of which it is a branch, or None."""
        return next(iter(self.base_projects), None)

    @property
    def base_projects(self) -> tuple[Project, ...]:
        """This project with the storage and the ledger of each environment that a branch borrows from."""
        return tuple(
            replace(
                self,
                env=base.env,
                storage=base.storage,
                ledger=base.ledger,
                storage_options=base.storage_options,
                bases=self.bases[index + 1 :],
            )
            for index, base in enumerate(self.bases)
        )

    @property
    def work_folder(self) -> Path:
        """The local folder for working files: the storage, or `.waterclock/<env>` in the project if it is remote."""
        return self.root / WORK / self.env if is_remote(self.storage) else Path(self.storage)

    def locate_error(self, place: Place, error: WaterclockError) -> WaterclockError:
        """Set the position and source line of an error to those of the statement at `place`; return the error."""
        from waterclock.dpl.syntax.source_text import SourceText

        error.where = str(place)
        if place.file not in self.sources:
            return error
        source = SourceText(place.file, self.sources[place.file])
        return source.span(source.offset(place)).locate_error(error)


def load_project(
    root: Path,
    *,
    env: str | None = None,
    capabilities: Mapping[str, Capabilities],
    known: RecordedColumns | None = None,
) -> Project:
    """Read and check the project in the folder `root`.

    `env` takes precedence over the variable WATERCLOCK_ENV, which takes precedence over the project file. `known` are
    the columns and types that the last run recorded.
    Raises ProjectErrors with all errors of the project, sorted by position.
    """
    project, errors = check_project(root, env=env, capabilities=capabilities, known=known)
    if errors or project is None:
        raise ProjectErrors(errors)
    return project


def check_project(
    root: Path,
    *,
    env: str | None = None,
    capabilities: Mapping[str, Capabilities],
    known: RecordedColumns | None = None,
) -> tuple[Project | None, tuple[WaterclockError, ...]]:
    """Read and check the project in the folder `root`; return it and no errors, or None and all errors."""
    root = root.resolve()
    if not (root / FILE).is_file():
        return None, (no_project_error(root),)
    with _pause_garbage_collection():
        return _check(root, env or os.environ.get(_ENV), capabilities, known)


def read_access(root: Path, *, env: str | None = None) -> tuple[AccessRules, SecretPlaces]:
    """Read the users, their rights and the places of secrets from the project file alone: the flow may have errors.

    An invalid entry gives no right. Raises ProjectErrors if the file or the environment is invalid, E930 if another
    user can change the file, and OSError.
    """
    from waterclock.dpl.config.model import read_config
    from waterclock.dpl.resolve.secret_places import secret_places
    from waterclock.dpl.resolve.users_and_roles import resolve_access_rules

    root = root.resolve()
    try:
        text = read_project_file(root)
    except UnicodeDecodeError as error:
        raise ProjectErrors([not_utf8_error(FILE, error)]) from None
    config, errors = read_config(text, env=env or os.environ.get(_ENV), root=root)
    if config is None:
        raise ProjectErrors(errors)
    return resolve_access_rules(config, errors), secret_places(root, config)


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector, whose scans take a third of the time of loading and find almost no garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _check(
    root: Path,
    env: str | None,
    capabilities: Mapping[str, Capabilities],
    known: RecordedColumns | None,
) -> tuple[Project | None, tuple[WaterclockError, ...]]:
    try:
        text = read_project_file(root)
    except UnicodeDecodeError as error:
        return None, (not_utf8_error(FILE, error),)
    except WaterclockError as error:
        return None, (error,)
    # not cached: a flow checked against `known` columns, and one with Python files, whose run may depend on anything
    branch = "\x1f".join(recorded_chain(root, env).values())
    key = key_of(root, f"{env or ''}\x1f{branch}", text, capabilities) if known is None else b""
    project = _load_cached(root, env or "", key) if key else None
    if project is not None:
        return project, ()
    project, patterns, errors = _read_without_cache(root, text, env, capabilities, known)
    if project is not None and key and not any(name.endswith(".py") for name in project.sources):
        kept = CachedProject(patterns, digest_of(project.sources), replace(project, sources={}))
        write_cached_project(root, env or "", key, kept, len(project.flow.tables))
    return project, _sort_errors(errors)


def _load_cached(root: Path, env: str, key: bytes) -> Project | None:
    """Return the cached project; None if its files have changed or a secret is missing."""
    kept = read_cached_project(root, env, key)
    if kept is None or not isinstance(kept.project, Project):
        return None
    sources, errors = read_sources(root, kept.patterns)
    if errors or digest_of(sources) != kept.sources:
        return None
    project = replace(kept.project, sources=sources)
    secrets = Secrets.from_places(project.secrets)
    return project if all(secrets.has(name) for name in _secrets_of(project)) else None


def _secrets_of(project: Project) -> Iterator[str]:
    """Yield the names of the secrets that loading requires: those of the ledger, connections and active OpenLineage."""
    options = (value for each in project.flow.connections.values() for value in each.options.values())
    sink = project.openlineage
    lineage = (sink.url, sink.token) if sink.is_on else ()
    yield from (value.name for value in (project.ledger, *options, *lineage) if isinstance(value, Secret))


def _read_without_cache(
    root: Path, text: str, env: str | None, capabilities: Mapping[str, Capabilities], known: RecordedColumns | None
) -> tuple[Project | None, tuple[str, ...], list[WaterclockError]]:
    """Read a project without the cache; return it, the patterns of its files, and all errors."""
    from waterclock.dpl.config.model import read_config
    from waterclock.dpl.resolve.secret_places import secret_place_errors, shared_variable_errors
    from waterclock.dpl.resolve.written_secrets import written_setting_errors

    config, errors = read_config(text, env=env, root=root)
    if config is None:
        return None, (), errors
    errors += _check_storage_path(_resolve_location(root, config.environment.storage), config)
    errors += secret_place_errors(config)
    errors += _check_ledger_secret(root, config)
    errors += written_setting_errors(config)
    sources, wrong = read_sources(root, config.files)
    errors += wrong or ([] if sources else [_no_statements_error(config)])
    if not sources:  # without statements, all further errors would only follow from this one
        return None, (), errors
    flow = compile_sources(root, config, sources, capabilities, known, errors)
    errors += shared_variable_errors(config, flow.connections.values() if flow is not None else ())
    alerts = Alerting()
    if config.alerts and flow is not None:
        from waterclock.dpl.resolve.alerts import resolve_alerts

        alerts = resolve_alerts(config, flow, errors)
    openlineage = LineageSink()
    if config.openlineage:
        from waterclock.dpl.resolve.openlineage import resolve_openlineage

        openlineage = resolve_openlineage(config, root, errors)
    from waterclock.dpl.resolve.catalog import resolve_catalog
    from waterclock.dpl.resolve.maintenance_hours import resolve_maintenance_hours
    from waterclock.dpl.resolve.users_and_roles import resolve_access_rules

    access, hours = resolve_access_rules(config, errors), resolve_maintenance_hours(config, errors)
    catalog = resolve_catalog(config, errors)
    if errors or flow is None:
        return None, (), errors
    read = build_project(root, config, flow, sources)
    read = replace(read, alerts=alerts, openlineage=openlineage, access=access, maintenance=hours, catalog=catalog)
    return read, config.files, []


def compile_sources(
    root: Path,
    config: Config,
    sources: Mapping[str, str],
    capabilities: Mapping[str, Capabilities],
    known: RecordedColumns | None,
    errors: list[WaterclockError],
) -> Flow | None:
    """Compile the texts of a flow's files, and add all errors to `errors`; None if there is no flow."""
    from waterclock.dpl.resolve.compile import compile_flow

    statements = list(read_statements(root, config, sources, errors))
    unread = len(errors)
    flow = compile_flow(statements, config, root=root, capabilities=capabilities, known=known, errors=errors)
    if unread:  # a table is not unknown because its statement could not be parsed
        errors[unread:] = [error for error in errors[unread:] if not _is_declared_in_unread_file(error, sources)]
    return flow


def _is_declared_in_unread_file(error: WaterclockError, sources: Mapping[str, str]) -> bool:
    name = error.what.removeprefix("unknown table ") if error.code == "E213" else ""
    declared = re.compile(rf"\b(COLLECT|TRANSFORM|VIEW)\s+{re.escape(name)}(?![\w.])", re.IGNORECASE)
    return bool(name) and any(map(declared.search, sources.values()))


def build_project(root: Path, config: Config, flow: Flow, sources: Mapping[str, str]) -> Project:
    """Build the project of a configuration, without alerts, OpenLineage and users."""
    from waterclock.dpl.resolve.on_restate import keep_collected_rows
    from waterclock.dpl.resolve.secret_places import secret_places

    environment = config.environment
    storage, ledger = addresses(root, config)
    default = config.default("", "owner")
    return Project(
        root=root,
        name=config.name,
        env=config.env,
        storage=storage,
        ledger=ledger,
        publish=bool(environment.sandbox) if config.bases else environment.publish,
        flow=keep_collected_rows(flow) if config.bases else flow,
        pools=dict(config.pools),
        variables=dict(config.variables),
        secrets=secret_places(root, config),
        spark=_spark(environment.spark),
        storage_options=_texts(environment.storage_options),
        owner=str(default[0]) if default else None,
        files=tuple(sources),
        sources=sources,
        bases=tuple(_base(root, *base) for base in config.bases),
        sandbox=frozenset(environment.sandbox),
    )


def _base(root: Path, name: str, environment: Environment) -> BaseEnvironment:
    storage = _resolve_location(root, environment.storage)
    ledger = _ledger(root, name, environment.ledger, storage)
    return BaseEnvironment(name, storage, ledger, _texts(environment.storage_options))


def addresses(root: Path, config: Config) -> tuple[str, str | Secret]:
    """Return the locations of a project's storage and ledger, for the environment of `config`."""
    storage = _resolve_location(root, config.environment.storage)
    return storage, _ledger(root, config.env, config.environment.ledger, storage)


def _spark(section: SparkSection) -> SparkDeclaration:
    return SparkDeclaration(
        section.master, section.connect, section.memory, section.python, tuple(section.packages), _texts(section.confs)
    )


def _texts(settings: Mapping[str, str | float | SecretSetting]) -> dict[str, str | Secret]:
    """Return settings with each value as a text, or as a reference if it is a secret."""
    return {
        name: option_text(value) if isinstance(value, str | int | float) else Secret(value.secret)
        for name, value in settings.items()
    }


def _resolve_location(root: Path, location: str) -> str:
    """Return a URL unchanged, and a local path as an absolute one; relative paths are below the project's root."""
    return location if is_remote(location) else str(root / location)


def _check_storage_path(storage: str, config: Config) -> list[WaterclockError]:
    """Return errors for a storage location that Delta's libraries cannot use, such as a path with a backslash."""
    if is_remote(storage):
        return _unreachable(storage, config)
    found = _NO_PATH_OF_DELTA.search(storage)
    if found is None:
        return _check_folder_options(config)
    return [
        config.place(("env", config.env, "storage")).refuse(
            "E242",
            f"storage cannot be in {storage!r}",
            why=f"the libraries that read Delta's log give {found[0]!r} in a path another meaning",
            fix="move the project, or use another folder as storage",
        )
    ]


def _unreachable(storage: str, config: Config) -> list[WaterclockError]:
    """Return errors for a storage URL of an unknown object store, and for options that the store does not have."""
    try:
        bucket_of(storage)
    except WaterclockError as error:
        return [config.place(("env", config.env, "storage")).locate_error(error)]
    unknown = config.environment.storage_options.keys() - set(options_of(storage))
    return [
        config.place(("env", config.env, "storage_options", name)).locate_error(unknown_option_error(name, storage))
        for name in unknown
    ]


def _check_folder_options(config: Config) -> list[WaterclockError]:
    """Return an error for `storage_options` if the storage is a local folder."""
    if not config.environment.storage_options:
        return []
    return [
        config.place(("env", config.env, "storage_options")).refuse(
            "E608",
            "storage_options are only for buckets",
            why=f"the storage is the folder {config.environment.storage}",
            fix="leave them out, or use a bucket: storage = 's3://bucket/prefix'",
        )
    ]


def _check_ledger_secret(root: Path, config: Config) -> list[WaterclockError]:
    """Return an error for a ledger whose URL is a secret that cannot be resolved."""
    from waterclock.dpl.resolve.secret_places import secret_places

    declared, secrets = config.environment.ledger, Secrets.from_places(secret_places(root, config))
    if declared is None or isinstance(declared, str) or secrets.has(declared.secret):
        return []
    return [config.place(("env", config.env, "ledger")).locate_error(secrets.unresolved_error(declared.secret))]


def _ledger(root: Path, env: str, location: str | SecretSetting | None, storage: str) -> str | Secret:
    if location is None:
        folder = root / WORK / env if is_remote(storage) else Path(storage)
        return f"sqlite:///{folder / 'ledger.db'}"
    if not isinstance(location, str):
        return Secret(location.secret)
    prefix = "sqlite:///"
    if location.startswith(prefix) and not location.startswith(prefix + "/"):
        return f"{prefix}{root / location.removeprefix(prefix)}"
    return location


def _no_statements_error(config: Config) -> WaterclockError:
    return config.place(("project", "files")).refuse(
        "E244",
        "no statements here",
        why=f"no file matches {', '.join(config.files)}",
        fix="write flows/first.dpl, or change files below [project]",
    )


def read_statements(
    root: Path, config: Config, sources: Mapping[str, str], errors: list[WaterclockError]
) -> Iterator[Statement]:
    """Parse the statements of a flow's files. Errors are added to `errors`."""
    from waterclock.dpl.syntax.parser import parse_text
    from waterclock.dpl.syntax.source_text import SourceText

    for name, text in sources.items():
        if name.endswith(".py"):
            found, wrong = _read_python(root / name, root, config)
        else:
            found, wrong = parse_text(SourceText(name, text), variables=config.variables)
        errors.extend(wrong)
        yield from found


def _read_python(path: Path, root: Path, config: Config) -> tuple[list[Statement], list[WaterclockError]]:
    """Read the statements of a Python file. `waterclock.dpl.python` is imported only if needed, because it is slow."""
    from waterclock.dpl.python.statements import load_python

    return load_python(path, root=root, variables=config.variables)


def _sort_errors(errors: list[WaterclockError]) -> tuple[WaterclockError, ...]:
    """Sort errors by file, line and column, and drop duplicates."""
    unique = {(error.code, error.where, error.what): error for error in errors}
    return tuple(sorted(unique.values(), key=_sort_key))


def _sort_key(error: WaterclockError) -> tuple[str, int, int, str]:
    file, _, rest = (error.where or "").partition(":")
    line, _, column = rest.partition(":")
    return file, int(line) if line.isdigit() else 0, int(column) if column.isdigit() else 0, error.code
