"""Validates events against OpenLineage's types in its own client library, generated from the published schemas."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

import attr
from openlineage.client import event_v2, facet_v2


def _facets() -> dict[str, type]:
    found: dict[str, type] = {}
    for module in vars(facet_v2).values():
        if isinstance(module, types.ModuleType):
            for each in vars(module).values():
                if isinstance(each, type) and issubclass(each, facet_v2.BaseFacet):
                    found[each._get_schema()] = each
    return found


FACETS = _facets()


def problems(event: dict[str, Any]) -> list[str]:
    """Return all deviations of an event from the specification: missing, unknown, or of another type."""
    found = [*_of_class(event, event_v2.RunEvent, "event")]
    if event["schemaURL"] != event_v2.RunEvent._get_schema():
        found.append(f"event: schema {event['schemaURL']}")
    if datetime.fromisoformat(event["eventTime"]).tzinfo is None:
        found.append("eventTime has no zone")
    UUID(event["run"]["runId"])
    return found


def _of_class(value: Any, kind: type, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is no object"
        return
    fields = {field.name: field for field in attr.fields(kind) if not field.name.startswith("__")}
    hints = typing.get_type_hints(kind)
    for key in value.keys() - fields.keys():
        yield f"{path}.{key} is not known to {kind.__name__}"
    for name, field in fields.items():
        if name in value:
            yield from _of_hint(value[name], hints[name], f"{path}.{name}")
        elif field.default is attr.NOTHING:
            yield f"{path}.{name} is missing"


def _of_facet(name: str, value: Any, path: str) -> Iterator[str]:
    kind = FACETS.get(value.get("_schemaURL", ""))
    if kind is None:
        yield f"{path}: no facet has the schema {value.get('_schemaURL')}"
        return
    if name.lower() not in kind.__name__.lower():
        yield f"{path} holds a {kind.__name__}"
    yield from _of_class(value, kind, path)


def _of_hint(value: Any, hint: Any, path: str) -> Iterator[str]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return
    if origin in {typing.Union, types.UnionType}:
        tried = [list(_of_hint(value, each, path)) for each in arguments if each is not type(None)]
        if value is not None and all(tried):
            yield from tried[0]
    elif origin is list:
        if not isinstance(value, list):
            yield f"{path} is no list"
            return
        for at, each in enumerate(value):
            yield from _of_hint(each, arguments[0], f"{path}[{at}]")
    elif origin is dict:
        yield from _of_mapping(value, arguments[1], path)
    elif isinstance(hint, type) and issubclass(hint, Enum):
        if value not in [each.value for each in hint]:
            yield f"{path}: {value!r} is none of {hint.__name__}"
    elif isinstance(hint, type) and attr.has(hint):
        yield from _of_class(value, hint, path)
    elif isinstance(hint, type) and not isinstance(value, (int, float) if hint is float else hint):
        yield f"{path}: {value!r} is no {hint.__name__}"


def _of_mapping(value: dict[str, Any], hint: Any, path: str) -> Iterator[str]:
    is_facets = isinstance(hint, type) and issubclass(hint, facet_v2.BaseFacet)
    for key, each in value.items():
        yield from _of_facet(key, each, f"{path}.{key}") if is_facets else _of_hint(each, hint, f"{path}.{key}")
