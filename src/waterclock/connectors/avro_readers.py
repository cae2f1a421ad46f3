"""Chooses a reader of Avro that data cannot crash: types that contain themselves allow values of any depth.

fastavro's compiled reader calls itself for each level, without a limit, so deep values overflow the stack of C and kill
the process. Its reader in Python decodes the same values, and Python ends it with a RecursionError. It is slower, so it
reads only recursive types. The depth of other values is that of their schema, which `is_recursive` bounds too.
"""

from __future__ import annotations

import json
from typing import Any

_PLAIN = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed"})
_OWN = frozenset({"__fastavro_parsed", "__named_schemas"})


def parse_schema(text: str) -> Any:
    """Parse a schema with fastavro, without the marks by which it would skip that and take types from elsewhere."""
    import fastavro

    return fastavro.parse_schema(json.loads(text, object_hook=_drop_marks))


def _drop_marks(read: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in read.items() if key not in _OWN}


def is_recursive(schema: Any, known: set[str] | None = None) -> bool:
    """Return whether a parsed type uses a name before that is completely defined, so that it may contain itself.

    `known` are the names that are defined.
    Raises  RecursionError for a schema that is too deep for either reader
    """
    known = set(_PLAIN) if known is None else known
    if isinstance(schema, str):
        return schema not in known
    if isinstance(schema, list):
        return any(is_recursive(each, known) for each in schema)
    kind = schema["type"]
    if kind in {"record", "error"}:
        inner = [field["type"] for field in schema["fields"]]
    else:
        inner = [schema[{"array": "items", "map": "values"}[kind]] if kind in {"array", "map"} else kind]
    if is_recursive(inner, known):
        return True
    if "name" in schema:
        known.add(schema["name"])
    return False


def readers_of(*, recursive: bool) -> Any:
    """Return fastavro's module with the readers of types that are or are not recursive."""
    from fastavro import _read_py, read

    return _read_py if recursive else read
