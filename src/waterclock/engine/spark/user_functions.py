"""Loads the functions of a project's Python files, and registers SQL functions in a session."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from waterclock.dpl.python.loader import forget, import_from, project_modules, run_file
from waterclock.dpl.query.builtins import FUNCTIONS, KEYED, called_functions
from waterclock.engine.spark.keys import KeysOfProject
from waterclock.engine.spark.tokens import add_tokens_view
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Function, PythonFunction
from waterclock.masking.token_sql import DETOKENIZE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_lock = threading.Lock()
_modules: dict[tuple[Path, str], ModuleType] = {}


def load_function(root: Path, function: PythonFunction) -> Callable[..., Any]:
    """Return the Python function of a declaration. Its file runs once per fingerprint. Raises E721 if it is missing.

    A function that may import from the project when it is called is called within `import_from`.
    """
    module = _load_module(root, root / function.file, function.fingerprint)
    found = getattr(module, function.name, None)
    if not callable(found):
        raise WaterclockError(
            "E721",
            f"{function.file} has no function {function.name}",
            where=str(function.place),
            fix="keep the decorated function at the file's top level",
        )
    call: Callable[..., Any] = found
    return call


def _load_module(root: Path, path: Path, fingerprint: str) -> ModuleType:
    """Run a Python file and the project modules it imports, once for each fingerprint, and return its module."""
    key = (path, fingerprint)
    with _lock:
        if key not in _modules:
            forget(root)
            with import_from(root):
                _modules[key] = run_file(path, root)
                _send_by_value(root, path)
        return _modules[key]


def _send_by_value(root: Path, path: Path) -> None:
    """Make Spark send the project's own modules with the functions, since its workers cannot import them."""
    from pyspark import cloudpickle

    folder = path.relative_to(root).parts[0]
    tops = {module.__name__.partition(".")[0] for module in project_modules(root)}
    if folder.isidentifier() and (root / folder).is_dir():
        tops.add(folder)  # a function may import from its own folder when it is called
    for name in tops:
        cloudpickle.register_pickle_by_value(importlib.import_module(name))  # type: ignore[no-untyped-call]  # vendored


def register_functions(
    spark: SparkSession, root: Path, flow: Flow, texts: Iterable[str], keys: KeysOfProject | None = None
) -> None:
    """Register the declared and built-in functions that `texts` call, and those that these functions call in turn.

    Functions with a key need `keys`, which the session gets only if such a function is called.
    """
    functions = called_functions({**FUNCTIONS, **flow.functions}, texts)
    if any(function.name in KEYED for function in functions):
        if keys is None:
            raise ValueError("functions with a key are refused in queries that are no part of a flow")
        keys.add_to(spark)
    if any(function.name == DETOKENIZE for function in functions):
        if keys is None:
            raise ValueError("detokenize is refused in queries that are no part of a flow")
        add_tokens_view(spark, keys.storage, flow)
    for function in functions:
        _register(spark, root, function)


def _register(spark: SparkSession, root: Path, function: Function) -> None:
    parameters = ", ".join(f"{name} {kind}" for name, kind in function.parameters)
    body = function.body
    if function.python is not None:
        inner = f"wc_py_{function.name}"
        spark.udf.register(inner, load_function(root, function.python), function.returns)
        # Spark passes any arguments to a Python function; a SQL function around it casts them to the declared types
        body = f"{inner}({', '.join(name for name, _ in function.parameters)})"
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION {function.name}({parameters}) RETURNS {function.returns} RETURN {body}"
    )
