"""Parses and validates the project file waterclock.toml: environments, and defaults for the project's statements."""

from __future__ import annotations

import datetime as dt
import fnmatch
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from waterclock.dpl.config.branches import BRANCH_FILE, BRANCHES, is_branch_name, recorded_branches, recorded_chain
from waterclock.dpl.config.environment import (
    UNDECLARED,
    Environment,
    Scalar,
    SparkSection,
    VaultSection,
    resolve_environment,
    settings_without_base,
)
from waterclock.dpl.config.file_name import FILE
from waterclock.dpl.config.secret_setting import SecretSetting
from waterclock.dpl.config.sections import MaintenanceSection, OidcSection, SignInSection, UserSection, section_at
from waterclock.dpl.config.toml_errors import unreadable_error
from waterclock.dpl.config.toml_positions import places_of
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Secret, Value
from waterclock.json_depth import require_shallow
from waterclock.secrets.credentials import hide_credentials, is_credential
from waterclock.similar_names import did_you_mean, find_similar

DEFAULT_FILES = ("flows/**/*.dpl", "flows/**/*.py")
_NEVER_DEFAULTS = frozenset({"type", "mode", "keys", "key", "rules", "expect", "columns", "merge"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROJECT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MOST_BRANCHES = 10  # named in an error

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


class _ProjectSection(BaseModel):
    model_config = _STRICT
    name: str
    files: list[str] = Field(default_factory=lambda: list(DEFAULT_FILES))
    env: str | None = None


class Defaults(BaseModel):
    """The section [defaults]: values for clauses that statements omit; `every` applies only to collects."""

    model_config = _STRICT
    every: str | None = None
    zone: str | None = None
    start: str | dt.datetime | dt.date | None = None
    owner: str | None = None
    tags: list[str] | None = None
    pool: str | None = None
    on_restate: str | None = None
    retain: str | None = None
    keep_versions: str | None = None
    deadline: str | None = None


class _File(BaseModel):
    model_config = _STRICT
    project: _ProjectSection
    defaults: dict[str, Any] = Field(default_factory=dict)
    vars: dict[str, Scalar] = Field(default_factory=dict)
    pools: dict[str, int] = Field(default_factory=dict)
    alerts: dict[str, Any] = Field(default_factory=dict)
    openlineage: dict[str, Any] = Field(default_factory=dict)
    roles: dict[str, list[str]] = Field(default_factory=dict)
    users: dict[str, UserSection] = Field(default_factory=dict)
    sign_in: SignInSection = Field(default_factory=SignInSection)
    maintenance: MaintenanceSection | None = None
    env: dict[str, Environment] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of the project file for one environment.

    `bases` are the environments that a branch borrows from, the nearest first. `misspelt` are the defaults that unknown
    keys probably mean: their absence is not reported for each table as well.
    """

    source: SourceText
    places: Mapping[tuple[str, ...], Span] = field(repr=False)
    name: str = ""
    files: tuple[str, ...] = DEFAULT_FILES
    env: str = "dev"
    environment: Environment = field(default_factory=Environment)
    bases: tuple[tuple[str, Environment], ...] = ()
    defaults: tuple[tuple[str, Defaults], ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    pools: Mapping[str, int] = field(default_factory=dict)
    alerts: Mapping[str, Any] = field(default_factory=dict)
    openlineage: Mapping[str, Any] = field(default_factory=dict)
    roles: Mapping[str, list[str]] = field(default_factory=dict)
    users: Mapping[str, UserSection] = field(default_factory=dict)
    sign_in: SignInSection = field(default_factory=SignInSection)
    maintenance: MaintenanceSection | None = None
    misspelt: frozenset[str] = frozenset()

    def default(self, table: str, key: str) -> tuple[Any, Span] | None:
        """Return the default of a setting for a table, with its span, or None. The most specific pattern wins."""
        for pattern, defaults in self.defaults:
            value = getattr(defaults, key)
            if value is not None and (pattern == "*" or fnmatch.fnmatchcase(table, pattern)):
                path = ("defaults", key) if pattern == "*" else ("defaults", pattern, key)
                return value, self.place(path)
        return None

    def place(self, path: tuple[str, ...]) -> Span:
        """Return the span of a key in the file, or of the innermost section around it if the key is missing."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places[path] if path else self.source.span(0)

    def connection_path(self, name: str) -> tuple[str, ...]:
        """Return the path of a connection's section in the file: that of a sandbox if the branch has one of it."""
        return "env", self.env, "sandbox" if name in self.environment.sandbox else "connections", name

    def place_of_env(self, path: tuple[str, ...]) -> Span:
        """Return the span of a key that environments may override: that of the environment, or else the general one."""
        own = ("env", self.env, *path)
        return self.place(own if own in self.places else path)


def read_config(
    text: str, *, env: str | None, root: Path | None = None, is_base_optional: bool = False
) -> tuple[Config | None, list[WaterclockError]]:
    """Parse the project file for an environment; return the configuration and all errors.

    Without `env` the file selects the environment. With `root`, the project's folder, the environment may be a branch
    that `waterclock branch create` made. The configuration is None if the file or the environment is invalid, and with
    `is_base_optional` not for a branch whose base is unknown: it has its own settings alone.
    """
    source = SourceText(FILE, text)
    try:
        return _read(source, env, root, is_base_optional=is_base_optional)
    except RecursionError:
        return None, [unreadable_error(source, "it is nested too deep")]


def _read(
    source: SourceText, env: str | None, root: Path | None, *, is_base_optional: bool
) -> tuple[Config | None, list[WaterclockError]]:
    """Parse the project file. Raises RecursionError if it is nested too deeply."""
    try:
        require_shallow(data := tomllib.loads(source.text), most=32)  # sections have at most five
    except ValueError as error:  # also raised by Python for a number of more than 4,300 digits
        return None, [unreadable_error(source, str(error))]
    places = places_of(source)
    config = Config(source, places)
    try:
        file = _File.model_validate(data)
    except ValidationError as error:
        return None, _invalid_value_errors(config, error.errors())
    errors: list[WaterclockError] = []
    defaults = _defaults(file.defaults, config, errors)
    misspelt = frozenset(
        meant for key in _unknown_defaults(file.defaults) for meant in find_similar(key, Defaults.model_fields)
    )
    chosen = _environment(file, env, root, config, errors, is_base_optional=is_base_optional)
    if not _PROJECT_NAME.fullmatch(file.project.name):
        errors.append(
            config.place(("project", "name")).refuse(
                "E242", f"{file.project.name!r} is not a valid project name",
                why="the name is part of every commit and of folders", fix="use letters, digits, _ and -",
            )
        )  # fmt: skip
    if chosen is None:
        return None, errors
    name, environment, bases = chosen
    variables = {**file.vars, **environment.vars}
    errors.extend(_variables(variables, config))
    pools = {"default": 4, **file.pools, **environment.pools}
    errors.extend(_pools(pools, config))
    read = Config(
        source,
        places,
        file.project.name,
        tuple(file.project.files),
        name,
        environment,
        bases,
        defaults,
        variables,
        pools,
        file.alerts,
        file.openlineage,
        {**file.roles, **environment.roles},
        {**file.users, **environment.users},
        environment.sign_in or file.sign_in,
        environment.maintenance or file.maintenance,
        misspelt,
    )
    return read, errors


def _defaults(
    section: dict[str, Any], config: Config, errors: list[WaterclockError]
) -> tuple[tuple[str, Defaults], ...]:
    found: list[tuple[str, Defaults]] = []
    plain = {key: value for key, value in section.items() if not isinstance(value, dict)}
    patterns = {key: value for key, value in section.items() if isinstance(value, dict)}
    for pattern, values in [*patterns.items(), ("*", plain)]:
        path = ("defaults",) if values is plain else ("defaults", pattern)
        try:
            found.append((pattern, Defaults.model_validate(_drop_illegal_defaults(values, path, config, errors))))
        except ValidationError as error:
            errors.extend(_invalid_value_error(config, problem, path, Defaults) for problem in error.errors())
    return tuple(sorted(found, key=lambda entry: (entry[0] != "*", _specificity(entry[0])), reverse=True))


def _unknown_defaults(section: Mapping[str, Any]) -> set[str]:
    """Return the unknown keys in [defaults] and in its subsections for table patterns."""
    keys = {key for key, value in section.items() if not isinstance(value, dict)}
    keys.update(key for value in section.values() if isinstance(value, dict) for key in value)
    return keys - Defaults.model_fields.keys()


def _specificity(pattern: str) -> tuple[int, int]:
    """Return a sort key for table patterns: the highest without wildcards, then by the number of fixed characters."""
    wild = sum(pattern.count(sign) for sign in "*?[")
    return (0 if wild else 1, len(pattern) - wild)


def _drop_illegal_defaults(
    values: dict[str, Any], path: tuple[str, ...], config: Config, errors: list[WaterclockError]
) -> dict[str, Any]:
    kept = {}
    for key, value in values.items():
        if key in _NEVER_DEFAULTS:
            errors.append(
                config.place((*path, key)).refuse(
                    "E241", f"{key} cannot have a default", why="type, mode, keys and rules belong to the table",
                    fix="write it in the statement",
                )
            )  # fmt: skip
        else:
            kept[key] = value
    return kept


def _environment(
    file: _File,
    env: str | None,
    root: Path | None,
    config: Config,
    errors: list[WaterclockError],
    *,
    is_base_optional: bool,
) -> tuple[str, Environment, tuple[tuple[str, Environment], ...]] | None:
    """Return the selected environment, and those that it borrows from if it is a branch."""
    names = list(file.env)
    chosen = env or file.project.env
    if chosen is None:
        if len(names) > 1 and UNDECLARED not in names:
            errors.append(
                config.place(("env",)).refuse(
                    "E243", "no environment is selected", why=f"there are {', '.join(names)}",
                    fix='use --env, or add env = "..." below [project]',
                )
            )  # fmt: skip
            return None
        chosen = names[0] if len(names) == 1 else UNDECLARED
    recorded = {} if root is None or chosen in file.env else recorded_chain(root, chosen)
    if chosen in file.env or recorded:
        made = {name: Environment.model_validate({"from": base}) for name, base in recorded.items()}
        declared = {**made, **(file.env or {file.project.env or UNDECLARED: Environment()})}
        try:
            return chosen, *resolve_environment(chosen, declared)
        except WaterclockError as error:
            errors.append(_locate_base_error(error, chosen, config, is_recorded=bool(recorded)))
            return (chosen, settings_without_base(chosen, declared[chosen]), ()) if is_base_optional else None
    branches = [] if root is None else [name for name in recorded_branches(root) if name not in file.env]
    if chosen in branches:
        errors.append(
            WaterclockError(
                "E243", f"the file of the branch {chosen} is damaged", where=f"{BRANCHES}/{chosen}/{BRANCH_FILE}",
                why="it names no environment", fix=f"`waterclock branch delete {chosen}` deletes it",
            )
        )  # fmt: skip
        return (chosen, settings_without_base(chosen, Environment()), ()) if is_base_optional else None
    if not names and (env is None or env == (file.project.env or UNDECLARED)):
        return chosen, Environment(), ()
    span = config.place(("project", "env") if env is None else ("env",))
    section = f"add a section [env.{chosen}]"
    if names and is_branch_name(chosen):
        roots = [name for name in names if name not in file.env or file.env[name].from_ is None]
        base = roots[0] if len(roots) == 1 else "ENV"
        section += f", or create a branch: `waterclock branch create {chosen} --from {base}`"
    created = f", and `branch create` made {', '.join(branches[:_MOST_BRANCHES])}" if branches else ""
    errors.append(
        span.refuse(
            "E243", f"unknown environment {chosen}",
            why=f"the project file has {', '.join(names) or 'none'}{created}",
            fix=did_you_mean(chosen, (*names, *branches), otherwise=section),
        )
    )  # fmt: skip
    return None


def _locate_base_error(error: WaterclockError, name: str, config: Config, *, is_recorded: bool) -> WaterclockError:
    """Set the place of an error of a branch's base: the section of the branch, or its file if it has no section."""
    if not is_recorded:
        return config.place(("env", name, "from")).locate_error(error)
    error.where = f"{BRANCHES}/{name}/{BRANCH_FILE}"
    error.fix = f"`waterclock branch delete {name}` deletes it"
    return error


def _variables(variables: Mapping[str, Any], config: Config) -> list[WaterclockError]:
    return [
        config.place(("vars", name)).refuse(
            "E242",
            f"{name!r} is not a valid variable name",
            why="a variable is one word, and the prefix wc_ is reserved",
            fix="use letters and _",
        )
        for name in variables
        if not _NAME.fullmatch(name) or name.lower().startswith("wc_")
    ]


def _pools(pools: Mapping[str, int], config: Config) -> list[WaterclockError]:
    return [
        config.place(("pools", name)).refuse("E242", f"invalid size {size} of pool {name}", fix="write 1 or more")
        for name, size in pools.items()
        if size < 1
    ]


def option_value(value: Any) -> Value | Secret | None:
    """Convert an option of the project file to a DPL value; None if options cannot have its type."""
    if isinstance(value, dict):
        if set(value) == {"secret"} and isinstance(value["secret"], str):
            return Secret(value["secret"])
        return None
    return value if isinstance(value, str | int | float | bool) else None


def flat_options(options: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested tables of options to dotted names: `auth = { token = 1 }` becomes `auth.token`."""
    flat: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict) and set(value) != {"secret"}:
            flat.update(flat_options(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def _redact_value(path: tuple[str, ...], value: object) -> str:
    """Return a value for an error message, without credentials."""
    return "(not shown)" if is_credential(path[-1]) else hide_credentials(repr(value))


_EXPECTED = {
    "string_type": "a string in quotes",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "dict_type": "a table",
    "model_type": "a table",
    "list_type": "a list",
}


def _invalid_value_errors(config: Config, problems: Sequence[Any]) -> list[WaterclockError]:
    """Build the errors for invalid values: one per setting, also if pydantic reports one for each type it may have."""
    paths = [_nearest_place(config, tuple(str(part) for part in problem["loc"])) for problem in problems]
    secretive = {path for path, each in zip(paths, problems, strict=True) if SecretSetting.__name__ in each["loc"]}
    errors, seen = [], set[tuple[str, ...]]()
    for path, problem in zip(paths, problems, strict=True):
        if path not in secretive:
            errors.append(_invalid_value_error(config, problem))
        elif path not in seen:
            seen.add(path)
            errors.append(
                config.place(path).refuse(
                    "E242", f"{'.'.join(path)} is neither a value nor a secret",
                    fix='write a string in quotes, or { secret = "name" }',
                )
            )  # fmt: skip
    return errors


def _nearest_place(config: Config, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path of a key, or of its innermost section, that the file contains."""
    return next((path[:end] for end in range(len(path), 0, -1) if path[:end] in config.places), path)


def _invalid_value_error(
    config: Config, problem: Any, prefix: tuple[str, ...] = (), model: type[BaseModel] = _File
) -> WaterclockError:
    path = (*prefix, *(str(part) for part in problem["loc"]))
    kind = problem["type"]
    key = path[-1]
    if kind == "extra_forbidden":
        known = _keys(model, path[len(prefix) : -1])
        return config.place(path).refuse(
            "E241",
            f"unknown key {key}",
            why=f"valid keys are {', '.join(known)}" if known else None,
            fix=_fix_of_key(key, known, path, config),
        )
    if kind == "missing" and len(path) == 1:
        return config.source.span(0).refuse(
            "E242", f"there is no section [{key}]", fix=f'add [{key}], and name = "..." below it'
        )
    if kind == "missing":
        return config.place(path[:-1]).refuse(
            "E242", f"{'.'.join(path)} is missing", fix=f'add {key} = "..." below [{".".join(path[:-1])}]'
        )
    known_path = _nearest_place(config, path)
    expected = (
        problem["ctx"]["expected"]
        if kind == "literal_error"
        else _EXPECTED.get(kind, "a string, a number, true, false or a date")
    )
    what = f"invalid value {_redact_value(known_path, problem['input'])} of {'.'.join(known_path)}"
    return config.place(known_path).refuse("E242", what, fix=f"write {expected}")


_MEANT = {
    "environments": "env", "environment": "env", "envs": "env", "profiles": "env", "targets": "env", "outputs": "env",
    "variables": "vars", "var": "vars", "params": "vars", "parameters": "vars", "default": "defaults",
    "timezone": "zone", "tz": "zone", "schedule": "every", "cadence": "every", "start_date": "start",
    "location": "storage", "path": "storage", "database": "ledger", "connection": "connections",
}  # fmt: skip
_HOMES: Mapping[str, type[BaseModel]] = {
    "[project]": _ProjectSection,
    "[defaults]": Defaults,
    "[env.NAME]": Environment,
    "[env.NAME.spark]": SparkSection,
    "[env.NAME.vault]": VaultSection,
    "[users.NAME]": UserSection,
    "[sign_in]": SignInSection,
    "[maintenance]": MaintenanceSection,
    "[sign_in.oidc]": OidcSection,
}


def _fix_of_key(key: str, known: Sequence[str], path: tuple[str, ...], config: Config) -> str:
    """Return the fix for an unknown key: a similar key, or the section to which the key belongs."""
    meant = _MEANT.get(key.lower())
    if meant is not None and meant in known:
        inner = [name for *parent, name in config.places if tuple(parent) == path] if meant == "env" else []
        return f"write {f'[env.{inner[0]}]' if inner else meant}"
    if close := find_similar(key, known):
        return f"did you mean {' or '.join(close)}?"
    name = meant or key
    homes = [home for home, model in _HOMES.items() if name in model.model_fields]
    if homes:
        return f"write {name} below {' or '.join(homes)}"
    return "write your own values below [vars], or comment the line out with #"


def _keys(model: type[BaseModel], path: tuple[str, ...]) -> list[str]:
    """Return the valid keys of the section at `path`."""
    if not path:
        return list(model.model_fields)
    if model is not _File:
        return []
    if (section := section_at(path)) is not None:
        return list(section.model_fields)
    env: dict[tuple[str, ...], type[BaseModel]] = {(): Environment, ("spark",): SparkSection, ("vault",): VaultSection}
    found = _ProjectSection if path[0] == "project" else env.get(path[2:]) if path[0] == "env" else None
    return (
        [] if found is None or path == ("env",) else [field.alias or key for key, field in found.model_fields.items()]
    )
