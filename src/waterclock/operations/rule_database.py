"""Runs the SQL of project rules in an in-memory SQLite database that can only be read, within limits.

Permitted are one SELECT on the relations and plain functions. Everything else is refused before the rule runs: writes,
ATTACH, PRAGMA, extensions, and tables that are no relations.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from waterclock.operations.rule_relations import (
    LEDGER_RELATIONS,
    RELATIONS,
    ProjectFacts,
    Relation,
    SqlValue,
    ledger_relation,
)

SECONDS = 5.0  # of processor time, for one rule
MOST_MEMORY = 256 << 20  # bytes by which the process may grow while a rule runs
MOST_ROWS = 1000  # places of a rule that are read
_LONGEST_VALUE = 100_000  # bytes
_OPERATIONS = 200  # of SQLite's machine between two checks of time and memory
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: _LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_COLUMN: 200,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
FUNCTIONS = frozenset(
    "abs avg char coalesce concat concat_ws count cume_dist current_date current_time current_timestamp "
    "date datetime dense_rank first_value format glob "
    "group_concat hex ifnull instr json_array_length json_extract json_type json_valid julianday lag last_value "
    "lead length like lower ltrim max min nth_value ntile nullif percent_rank printf quote rank replace round "
    "row_number rtrim sign strftime string_agg substr substring sum time total trim typeof unicode unixepoch "
    "upper -> ->>".split()
)


# in older versions of SQLite, a character is repeated without an end of the rule's time, also beyond the longest value
_REPEATED = re.compile(r"%[-+ #0,!\d*]*\.(?P<times>\d+|\*)l*c")
_MANY = re.compile(r"\s*[-+]?\d{6,}")
FORMATS = ("printf", "format")


class RuleStopped(Exception):
    """A rule was stopped because it took too much time or memory."""


class RuleRefused(Exception):
    """A rule does what rules must not do. `name` is the name that is refused, if it is one of the text."""

    def __init__(self, what: str, name: str | None = None) -> None:
        super().__init__(what)
        self.name = name


@dataclass(frozen=True, slots=True)
class RuleRows:
    """The rows of a rule's query, each by column name. `is_cut`: there are more."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, SqlValue]]
    is_cut: bool = False


@dataclass(slots=True)
class _Guard:
    """Decides what a statement may do, and records the relations that it reads and the first refusal."""

    known: Mapping[str, Relation]
    read: set[str] = field(default_factory=set)
    refused: RuleRefused | None = None

    def authorize(self, action: int, first: str | None, second: str | None, *_: object) -> int:
        refusal = self._find_refusal(action, first or "", second or "")
        self.refused = self.refused or refusal
        return int(sqlite3.SQLITE_OK if refusal is None else sqlite3.SQLITE_DENY)

    def _find_refusal(self, action: int, first: str, second: str) -> RuleRefused | None:
        """Return the reason why an action is refused; None if it is permitted, and all others are refused."""
        if action in {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE}:
            return None
        if action == sqlite3.SQLITE_READ:
            if first in self.known:
                self.read.add(first)
                return None
            # without a column: the rows of a common table expression are counted
            is_expression = not second and not first.lower().startswith("sqlite_")
            return None if is_expression else RuleRefused(f"{first} is no relation of rules", first)
        if action == sqlite3.SQLITE_FUNCTION:
            is_known = second.lower() in FUNCTIONS
            return None if is_known else RuleRefused(f"the function {second} is not available in rules", second)
        return RuleRefused("a rule can only SELECT from the relations")


class RuleDatabase:
    """The relations of a project as tables of SQLite. A relation is filled when the first rule reads it."""

    def __init__(self, facts: ProjectFacts) -> None:
        self.facts = facts
        self.relations: dict[str, Relation] = dict(RELATIONS)
        self._filled: set[str] = set()
        self._memory = _Memory()
        self._database = sqlite3.connect(":memory:", isolation_level=None)
        self._database.execute("PRAGMA temp_store = MEMORY")
        self._formatter = sqlite3.connect(":memory:", isolation_level=None)
        self._formatter.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        for name in FORMATS:
            self._database.create_function(name, -1, self._format, deterministic=True)
        for name in RELATIONS:
            self._create(name)

    def close(self) -> None:
        """Close the database."""
        self._database.close()
        self._formatter.close()
        self._memory.close()

    def _create(self, name: str) -> None:
        columns = ", ".join(f'"{column}"' for column in self.relations[name].columns)
        self._database.execute(f'CREATE TABLE "{name}" ({columns})')

    def _format(self, *values: SqlValue | bytes) -> SqlValue:
        """Return SQLite's `printf` of the values. Raises ValueError for a character that is repeated too often."""
        texts = [*map(_as_text, values)]
        for found in _REPEATED.finditer(texts[0] if texts else ""):
            if any(map(_MANY.match, texts[1:] if found["times"] == "*" else [found["times"]])):
                raise ValueError(found[0])
        [result] = self._formatter.execute(f"SELECT printf({', '.join('?' * len(values))})", values).fetchone()
        return result  # type: ignore[no-any-return]

    def ask(self, sql: str) -> RuleRows:
        """Run the query of a rule.

        Raises RuleRefused for anything but one SELECT on the relations, RuleStopped if it exceeds its time or memory,
        and the errors of sqlite3.
        """
        for name in LEDGER_RELATIONS:  # their columns are known to SQLAlchemy's modules, which take time to import
            if name not in self.relations and re.search(rf"\b{name}\b", sql, re.IGNORECASE):
                self.relations[name] = ledger_relation(name)
                self._create(name)
        guard = _Guard(self.relations)
        with self._apply_limits(guard):
            self._database.execute(f"EXPLAIN {sql}").close()  # compiled, and not run: the relations are still empty
        for name in sorted(guard.read - self._filled):
            self._fill(name)
        with self._apply_limits(guard), closing(self._database.execute(sql)) as cursor:
            columns = [each[0] for each in cursor.description]
            rows = cursor.fetchmany(MOST_ROWS + 1)
        found = [dict(zip(columns, row, strict=True)) for row in rows[:MOST_ROWS]]
        return RuleRows(columns, found, len(rows) > MOST_ROWS)

    def _fill(self, name: str) -> None:
        relation = self.relations[name]
        marks = ", ".join("?" for _ in relation.columns)
        self._database.executemany(f'INSERT INTO "{name}" VALUES ({marks})', relation.rows(self.facts))
        self._filled.add(name)

    @contextmanager
    def _apply_limits(self, guard: _Guard) -> Iterator[None]:
        """Apply the limits and permissions of rules to all statements in the block."""
        until, most = time.thread_time() + SECONDS, self._memory.size() + MOST_MEMORY
        stopped: list[str] = []

        def check() -> int:
            if time.thread_time() > until:
                stopped.append(f"it ran longer than {SECONDS:.0f} seconds")
            elif self._memory.size() > most:
                stopped.append(f"it needed more than {MOST_MEMORY >> 20} MB of memory")
            return len(stopped)

        former = {limit: self._database.setlimit(limit, value) for limit, value in _LIMITS.items()}
        self._database.set_authorizer(guard.authorize)
        self._database.set_progress_handler(check, _OPERATIONS)
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, MemoryError) as error:
            if stopped or isinstance(error, MemoryError):
                raise RuleStopped(stopped[0] if stopped else "it needed too much memory") from error
            if guard.refused is not None:
                raise guard.refused from error
            raise
        finally:
            self._database.set_progress_handler(None, 0)
            self._database.set_authorizer(None)
            for limit, value in former.items():
                self._database.setlimit(limit, value)


def _as_text(value: SqlValue | bytes) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return f"{value:.0f}" if isinstance(value, float) else str(value)


class _Memory:
    """The memory that this process uses.

    Linux gives the present size, in a file that stays open because opening it takes longer than 200 operations of
    SQLite. Elsewhere it is the largest size so far. On Linux that would not do: a process begins with the largest
    size of the process that started it, so a rule could grow to this size unnoticed.
    """

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open("/proc/self/statm", os.O_RDONLY)
        except OSError:
            self._file = None

    def size(self) -> int:
        """Return its size in bytes; 0 on systems that do not report it."""
        if self._file is not None:
            return int(os.pread(self._file, 100, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")
        try:
            import resource
        except ImportError:
            return 0
        peak: Any = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return int(peak) * (1 if sys.platform == "darwin" else 1024)

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
