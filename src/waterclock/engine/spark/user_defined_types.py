"""Prevents PySpark from importing the Python class of a user-defined type that a schema names.

PySpark imports any module that a schema names (`pyClass`), and runs its code. Schemas are untrusted: a query can write
one for `from_json`, and a Parquet file contains one in its metadata. So only classes are accepted that are already
loaded, such as a notebook's own, and those of PySpark itself.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from waterclock.errors import WaterclockError

_OF_PYSPARK = ("pyspark.ml.linalg", "pyspark.mllib.linalg")


def block_foreign_types() -> None:
    """Patch PySpark in this process to load no code for user-defined types: reading such a schema raises E734."""
    from pyspark.sql.types import UserDefinedType

    UserDefinedType.fromJson = classmethod(_load_known_type)  # type: ignore[method-assign, assignment]


def _load_known_type(_: Any, schema: dict[str, Any]) -> Any:
    from pyspark.sql.types import UserDefinedType

    module, _, name = str(schema.get("pyClass")).rpartition(".")
    if module in _OF_PYSPARK:
        importlib.import_module(module)
    found = getattr(sys.modules.get(module), name, None)
    if isinstance(found, type) and issubclass(found, UserDefinedType):
        return found()
    raise WaterclockError(
        "E734",
        f"a column has the user-defined type {schema.get('pyClass') or schema.get('class')}",
        why="its Python class would be imported, and a file or a query may name any module",
        fix="write the values as STRING, STRUCT or another of Spark's own types",
    )
