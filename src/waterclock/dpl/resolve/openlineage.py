"""Resolves the section `[openlineage]` of the project file: the destination of OpenLineage events."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from waterclock.dpl.config.model import Config
from waterclock.dpl.resolve.secret_places import secret_places
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Secret
from waterclock.flow.openlineage import LineageSink
from waterclock.secrets.credentials import hide_credentials
from waterclock.secrets.reader import Secrets
from waterclock.similar_names import did_you_mean

_SECTION = "openlineage"
_KEYS = ("url", "file", "token", "namespace")


def resolve_openlineage(config: Config, root: Path, errors: list[WaterclockError]) -> LineageSink:
    """Return the destination of OpenLineage events; append all errors in the section to `errors`."""
    values = config.openlineage
    before = len(errors)
    for key in values:
        if key not in _KEYS:
            fix = did_you_mean(key, _KEYS, otherwise="leave it out")
            _refuse(config, errors, key, f"unknown key {key}", f"valid keys are {', '.join(_KEYS)}", fix)
    if values and ("url" in values) == ("file" in values):
        what = (
            f"{_SECTION} has {'both' if 'url' in values else 'neither'} url {'and' if 'url' in values else 'nor'} file"
        )
        _refuse(config, errors, None, what, None, 'write url = "https://…/api/v1/lineage", or file = "lineage.jsonl"')
    url = _text_or_secret(config, errors, "url")
    if isinstance(url, str) and not url.startswith(("http://", "https://")):
        _refuse(
            config,
            errors,
            "url",
            f"{hide_credentials(url)} is not a web address",
            None,
            "write one that begins with https:// or http://",
        )
    token = _text_or_secret(config, errors, "token")
    if "token" in values and "url" not in values:
        _refuse(config, errors, "token", "a file takes no token", None, "leave it out")
    texts = {key: _text(config, errors, key) for key in ("file", "namespace")}
    is_on = bool(values) and config.environment.openlineage
    if is_on:
        _check_secrets(config, errors, {"url": url, "token": token}, Secrets.from_places(secret_places(root, config)))
    if not values or len(errors) > before:
        return LineageSink()
    namespace = texts["namespace"] or f"{config.name}.{config.env}"
    place = config.place((_SECTION, "url" if url is not None else "file"))
    return LineageSink(url, texts["file"], token, namespace, is_on, str(place.place))


def _text(config: Config, errors: list[WaterclockError], key: str) -> str | None:
    value = config.openlineage.get(key)
    if value is None or (isinstance(value, str) and value):
        return value
    _refuse(config, errors, key, f"{key} is not a string", None, "write a string in quotes")
    return None


def _text_or_secret(config: Config, errors: list[WaterclockError], key: str) -> str | Secret | None:
    value: Any = config.openlineage.get(key)
    if value is None or (isinstance(value, str) and value):
        return value
    if isinstance(value, Mapping) and set(value) == {"secret"} and isinstance(value["secret"], str):
        return Secret(value["secret"])
    fix = 'write a string in quotes, or { secret = "name" }'
    _refuse(config, errors, key, f"{key} is neither a string nor a secret", None, fix)
    return None


def _check_secrets(
    config: Config, errors: list[WaterclockError], values: Mapping[str, str | Secret | None], secrets: Secrets
) -> None:
    for key, value in values.items():
        if isinstance(value, Secret) and not secrets.has(value.name):
            errors.append(config.place((_SECTION, key)).locate_error(secrets.unresolved_error(value.name)))


def _refuse(
    config: Config, errors: list[WaterclockError], key: str | None, what: str, why: str | None, fix: str | None
) -> None:
    path = (_SECTION,) if key is None else (_SECTION, key)
    errors.append(config.place(path).refuse("E917", what, why=why, fix=fix))
