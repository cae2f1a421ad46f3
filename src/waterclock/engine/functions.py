"""Loads the functions of a project's Python files, and makes the declared SQL functions known to a session."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from waterclock.dpl.loading import run_file
from waterclock.errors import WaterclockError
from waterclock.flow import Flow, Function, PythonFunction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_lock = threading.Lock()
_modules: dict[tuple[Path, int], ModuleType] = {}


def load_function(root: Path, function: PythonFunction) -> Callable[..., Any]:
    """Give the Python function that a declaration names; its file is run once a process and change.

    Raises:
        WaterclockError: E721 where the file has no such function.
    """
    module = _module(root, root / function.file)
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


def _module(root: Path, path: Path) -> ModuleType:
    key = (path, path.stat().st_mtime_ns)
    with _lock:
        if key not in _modules:
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))  # and left there: a function may import when it is called
            _modules[key] = run_file(path, root)
        return _modules[key]


def register_functions(spark: SparkSession, root: Path, flow: Flow, texts: Iterable[str]) -> None:
    """Make the declared functions that `texts` call known to the session, those they call in turn included."""
    needed = _called(flow, list(texts))
    for function in flow.functions.values():
        if function.name in needed:
            _register(spark, root, function)


def _called(flow: Flow, texts: list[str]) -> set[str]:
    needed: set[str] = set()
    while texts:
        text = texts.pop()
        for name, function in flow.functions.items():
            if name not in needed and re.search(rf"\b{re.escape(name)}\s*\(", text, re.IGNORECASE):
                needed.add(name)
                texts.append(function.body or "")
    return needed


def _register(spark: SparkSession, root: Path, function: Function) -> None:
    if function.python is not None:
        spark.udf.register(function.name, load_function(root, function.python), function.returns)
        return
    parameters = ", ".join(f"{name} {kind}" for name, kind in function.parameters)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION {function.name}({parameters}) "
        f"RETURNS {function.returns} RETURN {function.body}"
    )
