"""Declares time-labelled data flows, and runs them on Spark and Delta.

In a project's Python files, `import waterclock as wc` provides the statements: `wc.collect`, `wc.transform` and so on.
In a notebook, `wc.check`, `wc.plan`, `wc.run`, `wc.status`, `wc.diff` and `wc.query` are the commands of these names.
`wc.resolve` returns a table as of a tick, `wc.read` returns the content of a source, `wc.write` delivers a DataFrame to
a destination, and `wc.spec` runs specifications by example.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waterclock.dpl.python.decorators import (
        collect,
        connection,
        flat,
        function,
        history,
        latest,
        past,
        previous,
        publish,
        secret,
        stateful,
        table,
        transform,
        var,
        view,
    )
    from waterclock.engine.query.notebook import resolve
    from waterclock.masking.columns import key_of, mask_text
    from waterclock.notebook.commands import check, diff, plan, query, run, status
    from waterclock.notebook.read_and_write import read, write
    from waterclock.specs.notebook import spec
    from waterclock.timelabel.window import Window

__version__ = "0.1.0"

__all__ = [
    "DataFrame",
    "Window",
    "__version__",
    "check",
    "collect",
    "connection",
    "diff",
    "flat",
    "function",
    "grant",
    "history",
    "key_of",
    "latest",
    "mask_text",
    "past",
    "plan",
    "previous",
    "publish",
    "query",
    "read",
    "resolve",
    "run",
    "secret",
    "spec",
    "stateful",
    "status",
    "table",
    "transform",
    "until",
    "var",
    "view",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "DataFrame" and "pyspark.sql" in sys.modules:
        return sys.modules["pyspark.sql"].DataFrame
    found = getattr(importlib.import_module(_HOMES.get(name, "waterclock.dpl.python.decorators")), name)
    if name != "DataFrame":  # not cached: PySpark's class replaces it once PySpark is imported
        globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


_COMMANDS = "waterclock.notebook.commands"
_HOMES = {
    "Window": "waterclock.timelabel.window",
    "resolve": "waterclock.engine.query.notebook",
    "key_of": "waterclock.masking.columns",
    "mask_text": "waterclock.masking.columns",
    "check": _COMMANDS,
    "diff": _COMMANDS,
    "plan": _COMMANDS,
    "query": _COMMANDS,
    "read": "waterclock.notebook.read_and_write",
    "run": _COMMANDS,
    "spec": "waterclock.specs.notebook",
    "status": _COMMANDS,
    "write": "waterclock.notebook.read_and_write",
}
