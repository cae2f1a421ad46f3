"""Keeps what plans show of the lineage of Python transforms: in the ledger, beside the fingerprint of their code."""

from __future__ import annotations

import threading
from pathlib import Path

from waterclock.dpl.python.brought_values import CodeLooks, look_at
from waterclock.flow.code_lineage import CodeLineage
from waterclock.flow.declarations import PythonFunction, Table
from waterclock.ledger.ledger import Ledger


class CodeLineages:
    """What this process has seen of each code; the ledger is written to only where a plan shows something new."""

    def __init__(self, root: Path, ledger: Ledger) -> None:
        self._root = root
        self._ledger = ledger
        self._looks: dict[tuple[str, str, str], CodeLooks] = {}
        self._known: dict[tuple[str, str], CodeLineage] = {}
        self._shown: set[tuple[str, str, object]] = set()
        self._lock = threading.Lock()

    def looks_of(self, function: PythonFunction) -> CodeLooks:
        """Return what a function's code shows. Cost: a parse of its file and the modules it imports, once a code."""
        key = (function.file, function.name, function.fingerprint)
        with self._lock:
            if key not in self._looks:
                self._looks[key] = look_at(self._root, function.file, function.name)
            return self._looks[key]

    def is_shown(self, table: Table, inputs: object) -> bool:
        """Tell whether code whose ways do not part was seen with these columns: its plan would show the same."""
        with self._lock:
            return (table.name, table.fingerprint, inputs) in self._shown

    def add(self, table: Table, inputs: object, found: CodeLineage) -> None:
        """Keep what a plan shows together with what others have. Cost: a ledger transaction where it is new."""
        key = (table.name, table.fingerprint)
        with self._lock:
            known = self._known.get(key)
            if known is None or known | found != known:
                self._known[key] = self._ledger.lineage.note_code(*key, found)
            self._shown.add((*key, inputs))
