"""Resolves and checks connections and units, with their options from statements and from the environment."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waterclock.dpl.config.model import Config, flat_options, option_value
from waterclock.dpl.resolve.buckets import SpanOf, check_buckets
from waterclock.dpl.resolve.receivers import check_receivers
from waterclock.dpl.resolve.sandbox import check_sandbox
from waterclock.dpl.resolve.secret_places import secret_places
from waterclock.dpl.resolve.table_options import TABLE_OPTIONS, TRANSFORM_OPTIONS, without_table_options
from waterclock.dpl.resolve.written_secrets import written_secret
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedOptions, ParsedUnit, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.about import About
from waterclock.flow.capabilities import Capabilities, Option
from waterclock.flow.declarations import Connection, Options, Place, Secret, Unit, Value
from waterclock.secrets.credentials import is_credential
from waterclock.secrets.reader import Secrets
from waterclock.similar_names import did_you_mean, find_similar

SpanOfOption = Callable[[str], Span]
PROJECT = "project"
_FILES = "files"


@dataclass(frozen=True, slots=True)
class ValidConnections:
    """The valid connections of a project, and the capabilities of their types."""

    connections: Mapping[str, Connection]
    declared: frozenset[str]
    capabilities: Mapping[str, Capabilities]

    def unit(
        self, declared: ParsedUnit, options: ParsedOptions | None, errors: list[WaterclockError], *, is_source: bool
    ) -> Unit:
        """Return the source or destination in FROM or TO; report unknown connections, and wrong or missing options."""
        values = options.values if options else {}
        unit = without_table_options(
            Unit(declared.connection, declared.path, declared.query, values, declared.span.place)
        )
        connection = self.connections.get(declared.connection)
        if connection is None:
            if declared.connection not in self.declared:
                errors.append(self._unknown(declared))
            return unit
        capabilities = self.capabilities[connection.type]
        if not _has_units(capabilities):
            errors.append(_no_unit_error(declared, capabilities, is_source=is_source))
            return unit
        of_unit = capabilities.collect_options if is_source else capabilities.publish_options
        legal = {**of_unit, **TABLE_OPTIONS} if is_source else of_unit
        where = f"a {'COLLECT from' if is_source else 'PUBLISH to'} {connection.type}"

        def span_of(name: str) -> Span:
            return options.spans.get(name, declared.span) if options else declared.span

        errors.extend(_wrong_options(values, legal, where, span_of))
        errors.extend(_missing_options(values, legal, where, declared.span))
        inherited = {name: value for name, value in connection.options.items() if name in of_unit}
        what = "collect" if is_source else "publish"
        errors.extend(_clashing_options(capabilities, what, values, span_of, inherited, path=declared.path))
        if declared.query is not None and not (capabilities.takes_query and is_source):
            errors.append(
                declared.span.refuse(
                    "E224",
                    f"QUERY is not supported for connections of type {connection.type}"
                    if is_source
                    else "a PUBLISH writes no QUERY",
                    fix=f"name the unit to {'read' if is_source else 'write'}: {declared.connection}.name",
                )
            )
        return unit

    def capabilities_of(self, unit: Unit) -> Capabilities | None:
        """Return the capabilities of a unit's connection; None if it is invalid, or only contains keys, not data."""
        connection = self.connections.get(unit.connection)
        found = None if connection is None else self.capabilities[connection.type]
        return found if found is not None and _has_units(found) else None

    def _unknown(self, unit: ParsedUnit) -> WaterclockError:
        return unit.span.source.span(unit.span.start, unit.span.start + len(unit.connection)).refuse(
            "E221",
            f"unknown connection {unit.connection}",
            fix=did_you_mean(
                unit.connection,
                [*self.connections],
                otherwise=f"declare it: CREATE CONNECTION {unit.connection} TYPE files;",
            ),
        )


def _has_units(capabilities: Capabilities) -> bool:
    """Return whether connections of a type can be collected from or published to; those of type `keys` cannot."""
    return bool(capabilities.collects or capabilities.publishes or capabilities.each_parameters)


def _no_unit_error(unit: ParsedUnit, capabilities: Capabilities, *, is_source: bool) -> WaterclockError:
    return unit.span.refuse(
        "E224",
        f"nothing is {'collected from' if is_source else 'published to'} a connection of type {capabilities.type}",
        why=f"{unit.connection} has no tables",
        fix=f"name another connection; functions use this one, as in hash_keyed(column, '{unit.connection}')",
    )


def resolve_connections(
    statements: Iterable[Statement],
    config: Config,
    root: Path,
    capabilities: Mapping[str, Capabilities],
    errors: list[WaterclockError],
) -> ValidConnections:
    """Return all connections with the environment's options, and `project`, the project's folder; report errors."""
    by_name = {statement.name: statement for statement in statements}
    connections: dict[str, Connection] = {}
    unknown = [name for name in config.environment.connections if name not in by_name and name != PROJECT]
    errors.extend(
        config.place(config.connection_path(name)).refuse(
            "E221",
            f"unknown connection {name}",
            why="a connection and its type are declared in DPL, its address in this file",
            fix=did_you_mean(name, by_name, otherwise=_suggest_declaration(name, config, capabilities)),
        )
        for name in unknown
    )
    for statement in by_name.values():
        misspelt = statement.name not in config.environment.connections and bool(find_similar(statement.name, unknown))
        connection = _connection(statement, config, capabilities, errors, misspelt=misspelt)
        if connection is not None:
            connections[statement.name] = connection
    if PROJECT not in connections and _FILES in capabilities:
        place = Place(config.source.file, 1, 1)
        connections[PROJECT] = Connection(PROJECT, _FILES, {"path": str(root)}, About(), place)

    def span_of(name: str, key: str) -> Span:
        return _place_of_option(name, key, by_name, config)

    errors.extend(check_sandbox(connections, by_name, config, root))
    _check_secrets(connections.values(), config, root, span_of, errors)
    files = [each for each in connections.values() if each.type == _FILES]
    errors.extend(check_buckets(files, config, span_of))
    errors.extend(check_receivers(connections.values(), span_of))
    return ValidConnections(connections, frozenset(by_name), capabilities)


def _suggest_declaration(name: str, config: Config, capabilities: Mapping[str, Capabilities]) -> str:
    """Return the fix for an undeclared connection: a statement with a type that has the options in the project file."""
    options = set(config.environment.connections[name])
    fitting = sorted(
        (each for each, has in capabilities.items() if options <= set(has.connection_options)),
        key=lambda each: (each != _FILES, each),
    )
    first, *others = fitting or [_FILES]
    also = f" (or {', '.join(others)})" if others else ""
    return f"declare it in a .dpl file: CREATE CONNECTION {name} TYPE {first};{also}"


def _connection(
    statement: Statement,
    config: Config,
    capabilities: Mapping[str, Capabilities],
    errors: list[WaterclockError],
    *,
    misspelt: bool,
) -> Connection | None:
    """Return a connection with the environment's options; None if it has no valid type.

    `misspelt`: the project file probably sets its options under a misspelt name, so missing options are not reported.
    """
    name = statement.name
    overlay = dict(flat_options(config.environment.connections.get(name, {})))
    path = config.connection_path(name)
    clause = statement.clause("TYPE")
    type_span = clause.span if clause else statement.span
    type_name = clause.value if clause else None
    if "type" in overlay:
        type_name, type_span = str(overlay.pop("type")).lower(), config.place((*path, "type"))
    if type_name is None:
        errors.append(
            statement.span.refuse(
                "E233", f"connection {name} has no TYPE", fix=f"add it, as in TYPE {_example(capabilities)}"
            )
        )
        return None
    if type_name not in capabilities:
        errors.append(_unknown_type(type_name, type_span, capabilities))
        return None
    option_list = statement.value("OPTIONS", ParsedOptions)
    options: dict[str, Any] = dict(option_list.values) if option_list else {}
    spans = dict(option_list.spans) if option_list else {}
    for key, raw in overlay.items():
        span = config.place((*path, *key.split(".")))
        value = option_value(raw)
        if value is None:
            errors.append(
                span.refuse(
                    "E223",
                    f"option {key} is not a string" if is_credential(key) else f"invalid value {raw!r} of option {key}",
                    fix='write a string, a number or { secret = "..." }',
                )
            )
            continue
        options[key], spans[key] = value, span
    legal = capabilities[type_name].connection_options
    what = f"a connection of type {type_name}"
    errors.extend(_wrong_options(options, legal, what, lambda key: spans.get(key, statement.span)))
    together = _clashing_options(
        capabilities[type_name], "connection", options, lambda key: spans.get(key, statement.span)
    )
    errors.extend(together)
    given = {**dict.fromkeys(overlay), **options}
    if not misspelt and not statement.has_failed("OPTIONS"):
        errors.extend(_missing_address(name, type_name, given, legal, config, statement.span))
    about = About(statement.value("OWNER", str), statement.value("TAGS", tuple) or (), statement.value("COMMENT", str))
    return Connection(name, type_name, options, about, statement.span.place)


def _unknown_type(name: str, span: Span, capabilities: Mapping[str, Capabilities]) -> WaterclockError:
    return span.refuse(
        "E222",
        f"unknown connection type {name}",
        why=f"the types are {_list(capabilities)}",
        fix=did_you_mean(name, [*capabilities, *_ALIASES], otherwise=f"write one, as in TYPE {_example(capabilities)}")
        if name not in _ALIASES
        else f"write TYPE {_ALIASES[name]}",
    )


_ALIASES = {"csv": "files", "json": "files", "parquet": "files", "file": "files", "s3": "files", "sqlite3": "sqlite",
            "postgresql": "postgres", "mariadb": "mysql", "http": "rest", "https": "rest", "api": "rest",
            "local": "files", "folder": "files", "xml": "files", "avro": "files", "excel": "files", "xls": "files",
            "xlsx": "files", "duck": "duckdb", "redpanda": "kafka", "webhook": "receiver",
            "events": "receiver"}  # fmt: skip
_VALUES = {"xls": "excel", "xlsx": "excel", "xlsm": "excel", "ods": "excel", "jsonl": "json", "ndjson": "json",
           "tsv": "csv", "txt": "csv", "pq": "parquet", "postgresql": "postgres", "mariadb": "mysql"}  # fmt: skip


def _check_secrets(
    connections: Iterable[Connection],
    config: Config,
    root: Path,
    span_of: SpanOf,
    errors: list[WaterclockError],
) -> None:
    secrets = Secrets.from_places(secret_places(root, config))
    for connection in connections:
        for key, value in connection.options.items():
            if isinstance(value, Secret) and not secrets.has(value.name):
                errors.append(span_of(connection.name, key).locate_error(secrets.unresolved_error(value.name)))


def _place_of_option(name: str, key: str, statements: Mapping[str, Statement], config: Config) -> Span:
    """Return the span of a connection's option in the project file, or else in its statement."""
    path = (*config.connection_path(name), *key.split("."))
    if path in config.places:
        return config.places[path]
    options = statements[name].value("OPTIONS", ParsedOptions) if name in statements else None
    found = options.spans.get(key) if options is not None else None
    return found or config.place(path)


def check_table_options(options: ParsedOptions, errors: list[WaterclockError]) -> None:
    """Report unknown options and invalid values in the OPTIONS of a TRANSFORM."""
    errors.extend(_wrong_options(options.values, TRANSFORM_OPTIONS, "a TRANSFORM", lambda name: options.spans[name]))


def _wrong_options(values: Options, legal: Mapping[str, Option], where: str, span_of: Any) -> Iterable[WaterclockError]:
    for name, value in values.items():
        option = legal.get(name) or legal.get(f"{name.partition('.')[0]}.*" if "." in name else name)
        if option is None:
            yield span_of(name).refuse(
                "E223",
                f"unknown option {name}",
                why=f"{where} takes {_list(legal)}" if legal else f"{where} takes no options",
                fix=did_you_mean(name, legal, otherwise="leave it out"),
            )
        elif written := written_secret(name, value, option, span_of(name)):
            yield written
        elif problem := _wrong_value(value, option):
            given = "a secret" if isinstance(value, Secret) else repr(value)
            is_unknown = isinstance(value, str) and bool(option.choices)
            yield span_of(name).refuse(
                "E223",
                f"unknown value {given} of option {name}"
                if is_unknown
                else f"option {name} must be {problem}, not {given}",
                why=f"the values are {', '.join(option.choices)}" if is_unknown and len(option.choices) > 1 else None,
                fix=_suggest_value(value, option),
            )
        elif scheme := _wrong_scheme(value, option):
            yield span_of(name).refuse(
                "E223",
                f"option {name} begins with {scheme}",
                why=f"a {name} here begins with {' or '.join(f'{it}://' for it in option.schemes if it)}",
                fix="correct it, or write the TYPE of connection that it is for",
            )


def _wrong_scheme(value: Value | Secret, option: Option) -> str:
    """Return the invalid scheme of a URL, such as `mysql://`, or 'no scheme'; '' for a valid one. Never a password."""
    if not option.schemes or not isinstance(value, str):
        return ""
    found = re.match(r"(?:([A-Za-z][A-Za-z0-9+.-]{0,20})://)?", value)
    scheme = (found and found[1]) or ""
    return "" if scheme.lower() in option.schemes else f"{scheme}://" if scheme else "no scheme"


def _suggest_value(value: Value | Secret, option: Option) -> str:
    """Return the fix for an invalid value of an option."""
    if option.choices:
        text = str(value).lower()
        known = _VALUES.get(text, text)
        listed = " or ".join(f"'{choice}'" for choice in option.choices)
        if known in option.choices:
            return f"write '{known}'"
        return did_you_mean(str(value), option.choices) or f"write {listed}, or leave the option out"
    if option.kind == "flag":
        return "write TRUE or FALSE"
    if option.kind == "number":
        is_number = isinstance(value, str) and value.strip().isdigit()
        return f"write it without quotes: {value}" if is_number else "write a number without quotes, as in 10"
    return f"put it in quotes: '{value}'"


def _clashing_options(
    capabilities: Capabilities,
    what: str,
    values: Options,
    span_of: SpanOfOption,
    inherited: Options | None = None,
    *,
    path: str = "",
) -> Iterable[WaterclockError]:
    """Yield the errors that a connector finds in combinations of options that are valid one by one.

    `what` is connection, collect or publish. `inherited` are options of the unit's connection, whose errors are not
    reported.
    """
    if capabilities.wrong_options is None:
        return
    for wrong in capabilities.wrong_options(what, {**(inherited or {}), **values}, path):
        if not wrong.option or wrong.option in values:
            yield span_of(wrong.option).refuse(wrong.code, wrong.what, why=wrong.why or None, fix=wrong.fix)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _wrong_value(value: Value | Secret, option: Option) -> str | None:
    if isinstance(value, Secret):
        return None if option.kind == "text" and not option.choices else f"a {option.kind}"
    if option.kind == "flag":
        return None if isinstance(value, bool) else "TRUE or FALSE"
    if option.kind == "number":
        return None if _is_finite(value) else "a number"
    if not isinstance(value, str):
        return "a string"
    if option.choices and value not in option.choices:
        return " or ".join(option.choices)
    return None


def _missing_options(values: Options, legal: Mapping[str, Option], where: str, span: Span) -> Iterable[WaterclockError]:
    for name, option in legal.items():
        if option.is_required and name not in values:
            yield span.refuse(
                "E223",
                f"option {name} is missing",
                why=f"{where} needs it{': ' + option.help if option.help else ''}",
                fix=f"add OPTIONS ({name} '...'), or set it in waterclock.toml",
            )


def _missing_address(
    name: str, type_name: str, given: Options, legal: Mapping[str, Option], config: Config, span: Span
) -> Iterable[WaterclockError]:
    """Yield one error for all missing required options of a connection, with the line to add to the project file."""
    missing = [option for option, what in legal.items() if what.is_required and option not in given]
    if not missing:
        return
    inner = ", ".join(f'{option} = "..."' for option in missing)
    helps = "; ".join(f"{option}: {legal[option].help}" for option in missing if legal[option].help)
    yield span.refuse(
        "E223",
        f"connection {name} has no address: {', '.join(missing)} is missing",
        why=f"a connection of type {type_name} needs {helps or ', '.join(missing)}",
        fix=f"add to {config.source.file}, below [env.{config.env}]: connections.{name} = {{ {inner} }}",
    )


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _example(capabilities: Mapping[str, Capabilities]) -> str:
    return _FILES if _FILES in capabilities else min(capabilities, default=_FILES)
