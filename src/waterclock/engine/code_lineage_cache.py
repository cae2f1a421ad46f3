"""Caches the column lineage of Python transforms, read from their Spark plans, in the ledger by code fingerprint."""

from __future__ import annotations

import threading
from pathlib import Path

from waterclock.dpl.python.collected_values import CodeFindings, inspect_code
from waterclock.flow.code_lineage import CodeLineage
from waterclock.flow.declarations import PythonFunction, Table
from waterclock.ledger.ledger import Ledger


class CodeLineages:
    """Caches column lineage that this process read from Spark plans, and writes only new lineage to the ledger."""

    def __init__(self, root: Path, ledger: Ledger) -> None:
        self._root = root
        self._ledger = ledger
        self._findings: dict[tuple[str, str, str], CodeFindings] = {}
        self._known: dict[tuple[str, str], CodeLineage] = {}
        self._shown: set[tuple[str, str, object]] = set()
        self._lock = threading.Lock()

    def analyse(self, function: PythonFunction) -> CodeFindings:
        """Return the results of analysing a function's code. Cost: a parse of its files, once per fingerprint."""
        key = (function.file, function.name, function.fingerprint)
        with self._lock:
            if key not in self._findings:
                self._findings[key] = inspect_code(self._root, function.file, function.name)
            return self._findings[key]

    def is_shown(self, table: Table, inputs: object) -> bool:
        """Return whether `add` was called before for the table's current code with these inputs."""
        with self._lock:
            return (table.name, table.fingerprint, inputs) in self._shown

    def add(self, table: Table, inputs: object, found: CodeLineage) -> None:
        """Merge lineage read from a plan into the known lineage. Cost: a ledger transaction if something is new."""
        key = (table.name, table.fingerprint)
        with self._lock:
            known = self._known.get(key)
            if known is None or known | found != known:
                self._known[key] = self._ledger.lineage.record_code_lineage(*key, found)
            self._shown.add((*key, inputs))
