"""Finds Python code whose effect the Spark plan of a transform does not show: values collected to Python, branches.

The code that the fingerprint covers is searched: the function, the statements of its file that it uses, and the
project's modules that it imports. The code of other libraries is not searched.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from waterclock.dpl.python.fingerprints import PythonFingerprints

# methods of a DataFrame that return values to Python, or cut its plan
_BRINGS = frozenset(
    {
        "approxQuantile", "checkpoint", "collect", "collectAsMap", "foreach", "foreachPartition", "isEmpty",
        "localCheckpoint", "Observation", "pandas_api", "rdd", "tail", "take", "toArrow", "toJSON", "toLocalIterator",
        "toPandas",
    }
)  # fmt: skip
_GROUPS = frozenset({"groupBy", "groupby", "rollup", "cube", "groupingSets"})
_FUNCTIONS = frozenset({"F", "f", "sf", "fn", "functions", "sql"})
_PARTS = (
    ast.If, ast.IfExp, ast.BoolOp, ast.Match, ast.Try, ast.TryStar, ast.For, ast.While, ast.comprehension,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CodeFindings:
    """Code whose effect a Spark plan does not show.

    `collecting_calls`: the calls that collect values to Python, such as `head() in flows/a.py:12`. `may_branch`: it has
    branches or loops, so that a plan shows only one path through it.
    """

    collecting_calls: tuple[str, ...] = ()
    may_branch: bool = True


def inspect_code(root: Path, file: str, name: str) -> CodeFindings:
    """Find the calls in a project's function that collect values to Python, and whether the function branches.

    Parses the function's file and the modules that it imports.
    """
    path = root / file
    try:
        parsed = ast.parse(path.read_bytes())
    except (OSError, SyntaxError):
        return CodeFindings((f"{file}, which cannot be read",))
    functions = [each for each in parsed.body if isinstance(each, ast.FunctionDef) and each.name == name]
    if not functions:
        return CodeFindings((f"{name} in {file}, which is not found there",))
    pieces = list(PythonFingerprints(root).code_of(functions[-1], parsed, path))
    collecting_calls = dict.fromkeys(
        f"{what} in {where}:{line}" for where, piece in pieces for what, line in _find_collected_values(piece)
    )
    return CodeFindings(
        tuple(collecting_calls), any(isinstance(node, _PARTS) for _, piece in pieces for node in ast.walk(piece))
    )


def _find_collected_values(piece: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(piece):
        if isinstance(node, ast.Attribute) and node.attr in _BRINGS:
            yield node.attr, node.lineno
        elif isinstance(node, ast.Name) and node.id in _BRINGS and isinstance(node.ctx, ast.Load):
            yield node.id, node.lineno
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_collecting_call(node, node.func)
        ):
            yield f"{node.func.attr}()", node.lineno


def _is_collecting_call(call: ast.Call, of: ast.Attribute) -> bool:
    """Return whether a call of an ambiguous method, such as `head` or `count`, collects values of a DataFrame."""
    is_function = isinstance(of.value, ast.Name) and of.value.id in _FUNCTIONS
    match of.attr:
        case "head":
            return True
        case "first":
            return not call.args and not call.keywords
        case "count":
            return not call.args and not call.keywords and not _is_grouped(of.value)
        case "corr" | "cov":
            return not is_function
    return False


def _is_grouped(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _GROUPS
