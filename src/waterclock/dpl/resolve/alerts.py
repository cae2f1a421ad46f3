"""Resolves the section `[alerts]` of the project file: its targets, rules and quiet hours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from waterclock.dpl.config.model import Config
from waterclock.errors import WaterclockError
from waterclock.flow.alerts import Alerting, AlertRule, QuietHours, Severity, Target, TargetKind
from waterclock.flow.declarations import Flow, Secret
from waterclock.selection import select
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.duration import parse_duration
from waterclock.timelabel.zone import nominal_zone

_SECTION_KEYS = ("targets", "rules", "repeat", "quiet", "zone")
_RULE_KEYS = ("to", "select", "severity", "repeat", "quiet", "zone")
_TARGET_KEYS = ("apprise", "webhook", "token")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_HOURS = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)")
_NEVER = "never"
_REPEAT = "24 HOURS"
_SHORTEST = timedelta(minutes=1)
_Path = tuple[str, ...]


def resolve_alerts(config: Config, flow: Flow, errors: list[WaterclockError]) -> Alerting:
    """Return the alert settings of the project file. Append all errors in them to `errors`."""
    section = config.alerts
    is_on = bool(section) and config.environment.alerts
    reader = _AlertReader(config, errors, is_whole=not errors)
    reader.keys(section, ("alerts",), _SECTION_KEYS)
    targets = {
        name: target
        for name, values in reader.tables(section, ("alerts", "targets"))
        if (target := _resolve_target(reader, name, values)) is not None
    }
    names = {str(name) for name in section.get("targets", ()) if isinstance(section.get("targets"), Mapping)}
    rules = [
        rule
        for name, values in reader.tables(section, ("alerts", "rules"))
        if (rule := _resolve_rule(reader, name, values, flow, names)) is not None
    ]
    if section and not section.get("rules") and isinstance(section.get("targets"), Mapping) and names:
        rules = [_default_rule(reader, flow, tuple(targets))]
    return Alerting(targets, tuple(rules), is_on)


@dataclass(slots=True)
class _AlertReader:
    """Reads values of the section `[alerts]`, and reports invalid values with their positions."""

    config: Config
    errors: list[WaterclockError]
    is_whole: bool  # the flow has no errors; otherwise tables with errors, which are reported already, may be missing
    section: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.section = self.config.alerts

    def refuse(self, path: _Path, code: str, what: str, *, why: str | None = None, fix: str | None = None) -> None:
        self.errors.append(self.config.place(path).refuse(code, what, why=why, fix=fix))

    def keys(self, section: Mapping[str, Any], path: _Path, known: tuple[str, ...]) -> None:
        for key in section:
            if key not in known:
                fix = did_you_mean(key, known, otherwise="leave it out")
                self.refuse(
                    (*path, key), "E911", f"unknown key {key}", why=f"valid keys are {', '.join(known)}", fix=fix
                )

    def tables(self, section: Mapping[str, Any], path: _Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the name and the values of each subsection at `path`; report invalid names and values."""
        kind, found = path[-1], section.get(path[-1], {})
        if not isinstance(found, Mapping):
            fix = f"write [alerts.{kind}.NAME] and its keys below it"
            self.refuse(path, "E911", f"alerts.{kind} is not a table of {kind}", fix=fix)
            return
        for name, values in found.items():
            if not _NAME.fullmatch(name):
                fix = "use letters, digits, _ and -"
                self.refuse((*path, name), "E911", f"{name!r} is not a valid name in {kind}", fix=fix)
            elif isinstance(values, Mapping):
                yield name, values
            else:
                fix = f"write [alerts.{kind}.{name}] and its keys below it"
                self.refuse((*path, name), "E911", f"alerts.{kind}.{name} is not a table", fix=fix)

    def texts(self, values: Mapping[str, Any], path: _Path) -> tuple[str, ...] | None:
        """Return a setting that is a string or a list of strings; empty if it is not set, None if it is invalid."""
        value = values.get(path[-1])
        if value is None:
            return ()
        listed = [value] if isinstance(value, str) else value
        if isinstance(listed, list) and all(isinstance(each, str) for each in listed):
            return tuple(listed)
        self.refuse(path, "E911", f"{path[-1]} is not a string", fix="write a string in quotes, or a list of strings")
        return None


def _resolve_target(reader: _AlertReader, name: str, values: Mapping[str, Any]) -> Target | None:
    path = ("alerts", "targets", name)
    reader.keys(values, path, _TARGET_KEYS)
    kinds = [kind for kind in TargetKind if kind in values]
    if len(kinds) != 1:
        what = f"target {name} has {'both' if kinds else 'neither'} apprise {'and' if kinds else 'nor'} webhook"
        fix = 'write apprise = { secret = "name" }, or webhook = "https://…"'
        reader.refuse(path, "E911", what, fix=fix)
        return None
    kind = kinds[0]
    address, token = _text_or_secret(reader, values, (*path, kind)), None
    if "token" in values:
        token = _text_or_secret(reader, values, (*path, "token"))
        if kind is not TargetKind.WEBHOOK:
            reader.refuse(
                (*path, "token"), "E911", "apprise takes no token", fix="leave token out: it is part of the address"
            )
    if address is None:
        return None
    is_web = isinstance(address, Secret) or address.startswith(("http://", "https://"))
    if kind is TargetKind.WEBHOOK and not is_web:
        reader.refuse(
            (*path, kind),
            "E911",
            f"{name} is not the address of a webhook",
            fix="write an address that begins with https://",
        )
    return Target(name, kind, address, token, str(reader.config.place((*path, kind)).place))


def _text_or_secret(reader: _AlertReader, values: Mapping[str, Any], path: _Path) -> str | Secret | None:
    value = values[path[-1]]
    if isinstance(value, str) and value:
        return value
    if isinstance(value, Mapping) and set(value) == {"secret"} and isinstance(value["secret"], str):
        return Secret(value["secret"])
    fix = 'write a string in quotes, or { secret = "name" }'
    reader.refuse(path, "E911", f"{path[-1]} is neither an address nor a secret", fix=fix)
    return None


def _resolve_rule(
    reader: _AlertReader, name: str, values: Mapping[str, Any], flow: Flow, targets: set[str]
) -> AlertRule | None:
    path = ("alerts", "rules", name)
    reader.keys(values, path, _RULE_KEYS)
    before = len(reader.errors)
    to = reader.texts(values, (*path, "to")) or ()
    if not to and "to" not in values:
        reader.refuse(path, "E913", f"rule {name} has no target", fix=f"add to = {_format_targets(targets)}")
    for target in to:
        if target not in targets:
            why = f"there are {', '.join(sorted(targets))}" if targets else "no target is declared"
            fix = did_you_mean(target, targets, otherwise=f"add a section [alerts.targets.{target}]")
            reader.refuse((*path, "to"), "E913", f"unknown target {target}", why=why, fix=fix)
    tables = _resolve_tables(reader, values, (*path, "select"), flow)
    severity = _resolve_severity(reader, values, (*path, "severity"))
    repeat = _resolve_repeat(reader, values, (*path, "repeat"))
    quiet = _resolve_quiet_hours(reader, values, path)
    if len(reader.errors) > before or severity is None:
        return None
    return AlertRule(name, tables, severity, to, repeat, quiet)


def _default_rule(reader: _AlertReader, flow: Flow, targets: tuple[str, ...]) -> AlertRule:
    """Return the rule of a project that declares none: every target receives every alert."""
    path = ("alerts",)
    repeat, quiet = _resolve_repeat(reader, {}, (*path, "repeat")), _resolve_quiet_hours(reader, {}, path)
    return AlertRule("all", frozenset(flow.tables), Severity.WARNING, targets, repeat, quiet)


def _resolve_tables(reader: _AlertReader, values: Mapping[str, Any], path: _Path, flow: Flow) -> frozenset[str]:
    texts = reader.texts(values, path)
    try:
        found = select(flow, *(texts or ()))
    except WaterclockError as error:
        if reader.is_whole or error.code != "E511":
            reader.errors.append(reader.config.place(path).locate_error(error))
        return frozenset()
    if found.labels:
        reader.refuse(
            path, "E911", "a rule applies to whole tables", why="it names labels", fix="leave out the part after @"
        )
    return frozenset(found.tables)


def _resolve_severity(reader: _AlertReader, values: Mapping[str, Any], path: _Path) -> Severity | None:
    severity = values.get("severity", Severity.WARNING.value)
    if severity in list(Severity):
        return Severity(severity)
    names = ", ".join(Severity)
    fix = did_you_mean(str(severity), list(Severity), otherwise=f"write one of {names}")
    reader.refuse(
        path, "E912", f"unknown severity {severity}", why=f"there are {names}, the most severe first", fix=fix
    )
    return None


def _resolve_repeat(reader: _AlertReader, values: Mapping[str, Any], path: _Path) -> timedelta | None:
    path = path if "repeat" in values else ("alerts", "repeat")
    setting = values.get("repeat", reader.section.get("repeat", _REPEAT))
    if setting == _NEVER:
        return None
    try:
        repeat = parse_duration(str(setting)).to_timedelta()
    except WaterclockError as error:
        reader.refuse(path, "E916", f"cannot repeat every {setting}", why=error.what, fix='write "4 HOURS", or "never"')
        return None
    if repeat < _SHORTEST:
        reader.refuse(
            path, "E916", f"cannot repeat every {setting}", why="that is less than a minute", fix='write "1 HOUR"'
        )
    return repeat


def _resolve_quiet_hours(reader: _AlertReader, values: Mapping[str, Any], path: _Path) -> QuietHours | None:
    setting, at = _find_setting(reader, values, path, "quiet")
    zone, at_zone = _find_setting(reader, values, path, "zone")
    if setting is None or setting == _NEVER:
        return None
    hours = _HOURS.fullmatch(str(setting).strip())
    if hours is None or hours.groups()[:2] == hours.groups()[2:]:
        reader.refuse(at, "E916", f"quiet hours cannot be {setting}", fix='write "22:00-07:00", or "never"')
        return None
    try:
        nominal_zone(str(zone or "UTC"))
    except WaterclockError as error:
        reader.errors.append(reader.config.place(at_zone).locate_error(error))
        return None
    first, second, third, fourth = map(int, hours.groups())
    return QuietHours(first * 60 + second, third * 60 + fourth, str(zone or "UTC"))


def _find_setting(reader: _AlertReader, values: Mapping[str, Any], path: _Path, key: str) -> tuple[Any, _Path]:
    """Return a rule's setting, or else that of `[alerts]`, which applies to all rules, with the path of its key."""
    return (values[key], (*path, key)) if key in values else (reader.section.get(key), ("alerts", key))


def _format_targets(targets: set[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in sorted(targets) or ["TARGET"]) + "]"
