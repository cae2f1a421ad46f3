"""A table of a life: its mode, its parts, its reads, its DPL, and the result of its query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tests.life.part import FOLDS, Part, Read
from tests.life.parts import (
    ByTime,
    Changed,
    Deletes,
    Demands,
    KeyPast,
    Lookback,
    Partial,
    Refers,
    Sequential,
    Unshuffled,
)
from tests.life.people import Apart, Persons, published_value
from tests.life.rows import DAY, Row, Rows, instant

FOREIGN = 999
"""The key of a row that another writer put into a destination."""
BEHIND = "x"
"""The same key as a text: it is neither a value nor a token."""


@dataclass
class Declared:
    """A table of a life: its mode, its parts, its reads, and the number in its query that represents its code."""

    kind: str
    name: str
    mode: str
    is_snapshot: bool = False
    is_by_file: bool = False
    """Whether a collect takes files by their stamps, BY ARRIVAL TIME."""
    is_form: bool = False
    """Whether a collect reads a form, which people edit: its rows as of the end of each window."""
    needs_approval: bool = False
    """Whether another person approves each change of the form."""
    parts: list[Part] = field(default_factory=list)
    reads: tuple[Read, ...] = ()
    groups: bool = False
    code: int = 0
    start: int = 1
    size: int = 1
    """The days of a window. A day of the oracle is `hours` long on the engine."""
    hours: int = 24
    has_cadence: bool = False
    """Whether a transform declares EVERY: its inputs have another cadence."""
    was: str = ""
    of: str = ""
    origin: str = ""
    way: str = ""
    """How a PUBLISH delivers: as its table, in another mode, or behind a view."""
    decision: str = ""
    """How a PUBLISH declares the value: with a mask, or as sent unchanged although it is personal."""
    answers: tuple[Row, ...] = ()
    """The rows that an API returns for each key that a COLLECT ... FOR EACH sends to it; it knows no other key."""
    has_texts: bool = False
    """Whether the keys of its life are texts, because some are tokens."""
    odd: tuple[Read, ...] = ()
    """The reads of labels of odd windows, if the table chooses by its label."""

    def has(self, *kinds: type[Part]) -> bool:
        return any(isinstance(part, kinds) for part in self.parts)

    def part(self, kind: type[Part]) -> Part | None:
        return next((part for part in self.parts if isinstance(part, kind)), None)

    @property
    def lookback_days(self) -> int:
        found = self.part(Lookback) or self.part(Changed)
        return found.days if isinstance(found, Lookback | Changed) else 0

    def is_odd(self, label: int) -> bool:
        """Return whether a label's window is an odd one, counted from the first of January."""
        return (label - 1) // self.size % 2 == 0

    def window_of(self, day: int) -> int:
        """Return the label of the window that contains a day."""
        return day - (day - 1) % self.size

    def ends_by(self, day: int) -> int:
        """Return the label of the last window that ends at the start of a day, or before."""
        return self.window_of(day) - self.size

    def first_from(self, day: int) -> int:
        """Return the label of the first window that starts on a day, or later."""
        return self.window_of(day + self.size - 1)

    @property
    def is_by_data_time(self) -> bool:
        return self.kind == "COLLECT" and not (self.is_snapshot or self.is_by_file or self.is_form)

    @property
    def is_keyed(self) -> bool:
        """Whether the source has one row of each key: two rows of one key have no order in a snapshot."""
        return self.is_snapshot and self.mode == "TEMPORAL"

    @property
    def is_sequential(self) -> bool:
        own = any(read.table == self.name for read in self.all_reads)
        return own or self.is_by_file or self.mode in FOLDS or self.has(Sequential, KeyPast)

    @cached_property
    def words(self) -> frozenset[str]:
        """All declarations of the table, for the count of pairs."""
        batched = "snapshot" if self.is_snapshot else "BY ARRIVAL TIME" if self.is_by_file else "BY DATA TIME"
        batched = "form" if self.is_form else batched
        kind = {"COLLECT": batched, "PUBLISH": "PUBLISH"} | ({"TRANSFORM": "FOR EACH"} if self.answers else {})
        first = {kind.get(self.kind, "TRANSFORM"), f"{self.mode} table"}
        own = {"PREVIOUS of itself" for read in self.all_reads if read.table == self.name}
        reads = {read.word for read in self.all_reads if read.table != self.name} | ({"WHEN"} if self.odd else set())
        vias = {read.via for read in self.all_reads if read.via} | ({f"PUBLISH {self.way}"} if self.way else set())
        cadence = ({"long windows"} if self.size > 1 else set()) | ({"other cadence"} if self.has_cadence else set())
        decision = {f"PUBLISH {self.decision}"} if self.decision else set()
        decision |= {"approval"} if self.needs_approval else set()
        return frozenset(first | own | reads | vias | cadence | decision).union(*(it.words for it in self.parts))

    @property
    def all_reads(self) -> tuple[Read, ...]:
        return tuple(dict.fromkeys(self.reads + self.odd))

    @property
    def inputs(self) -> frozenset[str]:
        """The other tables that it reads, in its queries or to check references."""
        demand = self.part(Demands)
        parents = {demand.parent} if isinstance(demand, Demands) else set()
        return frozenset(parents | {read.table for read in self.all_reads} - {self.name})

    def value_inputs(self, flow: Mapping[str, Declared]) -> frozenset[str]:
        """Return the tables that its own value is computed from; an API answers by the key alone."""
        if self.kind != "TRANSFORM" or self.answers:
            return frozenset()
        flats = [flow[read.table].part(Refers) for read in self.all_reads if read.kind == "FLAT"]
        parents = {part.parent for part in flats if isinstance(part, Refers)}
        return frozenset(parents | {read.table for read in self.all_reads})

    def reads_at(self, label: int) -> tuple[Read, ...]:
        """Return the reads of a label's query."""
        return self.odd if self.odd and self.is_odd(label) else self.reads

    # its DPL

    @property
    def views(self) -> frozenset[str]:
        """The statements of the views that it reads."""
        return frozenset(
            f"CREATE VIEW {read.view} {'SHARED ' * (read.via == 'SHARED VIEW')}AS SELECT k, v, "
            f"{'rec_eff_time' if self.shapes[read.table] == 'TEMPORAL' else 'at'} AS at FROM {read.table};"
            for read in self.all_reads
            if read.via
        )

    @property
    def dpl(self) -> str:
        """The statement."""
        if self.has(Persons):
            return ""  # declared by the table with APART
        dpl = {"COLLECT": self._collect, "TRANSFORM": self._transform, "PUBLISH": self._publish}[self.kind]()
        return self._in_hours(dpl)

    def _in_hours(self, dpl: str) -> str:
        """Return a text in which days are as long as they are on the engine."""
        if self.hours == 24:
            return dpl
        return re.sub(r"\b(\d+) days?\b", lambda of: f"{int(of[1]) * self.hours} HOURS", dpl, flags=re.IGNORECASE)

    @property
    def _every(self) -> str:
        length = self.size * self.hours
        return "EVERY DAY" if length == 24 else f"EVERY {length} HOURS"

    def _columns(self, *, gone: bool, null: str = "") -> str:
        key = " ".join(part.of_key for part in self.parts if part.of_key)
        if self.mode in FOLDS or self.is_form:
            key = f"KEY {key}"
        more = "".join(part.column for part in self.parts)
        value = " ".join([f"v BIGINT{null}", *filter(None, (part.of_value for part in self.parts))])
        type_ = "STRING" if self.has_texts else "BIGINT"
        return f"(k {type_} {key}, {value}, at TIMESTAMP{null}{', gone BIGINT' if gone else ''}{more})"

    def _mode(self) -> str:
        at = "" if self.is_snapshot else " AT at"
        text = {"PARTITIONED": "", "REPLACE": "", "TEMPORAL": f"TEMPORAL{at}"}.get(self.mode, self.mode)
        text += " ORDER BY at" if self.has(ByTime) else ""
        text += " DELETE WHEN gone = 1" if self.has(Deletes) else ""
        # `gone` is data if it deletes no row, and not an attribute of versions
        return text + (" TRACK (v)" if self.mode == "TEMPORAL" and self.kind == "COLLECT" else "")

    def _clauses(self) -> str:
        return " ".join(part.clause for part in self.parts if part.clause)

    def _collect(self) -> str:
        if self.is_form:
            options = " OPTIONS (approval true)" if self.needs_approval else ""
            return (
                f"COLLECT {self.name} {self._columns(gone=False, null=' NOT NULL')} FROM forms.{self.source}{options} "
                f"{self._every} START '{instant((self.start - 1) * DAY, self.hours):%F %R}' {self._clauses()}"
                f"{self._was()};"
            )
        type_ = "PARTITIONED " if self.mode == "PARTITIONED" else ""
        looks = "".join(part.lookback for part in self.parts)
        by = "" if self.is_snapshot else "BY ARRIVAL TIME" if self.is_by_file else f"BY DATA TIME at{looks}"
        source = f"land.acme.{self.source}" if self.is_by_file else f"shop.{self.source}"
        return (
            f"COLLECT {self.name} {type_}{self._columns(gone=True)} FROM {source} {self._every} "
            f"START '{instant((self.start - 1) * DAY, self.hours):%F %R}' {by} {self._mode()} "
            f"{self._clauses()}{self._was()};"
        )

    def _transform(self) -> str:
        type_ = "PARTITIONED " if self.mode == "PARTITIONED" else ""
        every = f" {self._every}" if self.has_cadence else ""
        if self.answers:
            return (
                f"COLLECT {self.name} {type_}{self._columns(gone=False)} FROM api.{self.source} OPTIONS (path "
                f"'detail/{{k}}', not_found 'skip') FOR EACH {self.reads[0].table}{every} {self._mode()} "
                f"{self._clauses()}{self._was()};"
            )
        return (
            f"TRANSFORM {self.name} {type_}{self._columns(gone=False)}{every} {self._mode()} {self._clauses()}"
            f"{self._was()} {self._queries()};"
        )

    def _publish(self) -> str:
        how = "MERGE ON (k)" if self.way in {"MERGE", "queue"} else self.way
        others = f"k {'<>' if self.has_texts else '<'} {self.foreign_sql}"
        how = how.replace("REPLACE WHERE", f"REPLACE WHERE {others}").replace("behind a view", "")
        options = " OPTIONS (behind 'view')" if "behind" in self.way else ""
        return f"PUBLISH {self.of} (k, {published_value(self.decision)}) TO {self.name}{options} {how};"

    @property
    def foreign_sql(self) -> str:
        """The key of the row that another writer put at a destination."""
        return f"'{BEHIND}'" if self.has_texts else str(FOREIGN)

    def _was(self) -> str:
        return f" WAS {self.was}" if self.was else ""

    @property
    def source(self) -> str:
        return (self.origin or self.name).partition(".")[2]

    shapes: dict[str, str] = field(default_factory=dict)
    """The mode of each table that is read, which determines the name of its time column."""

    def _from(self, read: Read) -> str:
        at = "rec_eff_time" if self.shapes[read.table] == "TEMPORAL" and not read.via else "at"
        v = "v + coalesce(v_p, 0) AS v" if read.kind == "FLAT" else "v"
        hint = "/*+ COALESCE(1) */ " if self.has(Unshuffled) else ""
        return f"(SELECT {hint}k, {v}, {at} AS at FROM {read.sql})"

    def _queries(self) -> str:
        if self.has(Apart):
            return f"AS SELECT k, v, at, concat('m', k) AS w FROM ({self._query(self.reads)}) AS q"
        if not self.odd:
            return f"AS {self._query(self.reads)}"
        length = self.size * self.hours
        is_even = f"(day(WINDOW_START()) * 24 + hour(WINDOW_START()) - 24) % {2 * length} = {length}"
        return f"WHEN {is_even} AS {self._query(self.reads)} ELSE AS {self._query(self.odd)}"

    def _query(self, reads: tuple[Read, ...]) -> str:
        """Return a query of the rows of the first read, with the sum of each further one of the same key."""
        first, *more = reads
        value = "sum(a.v)" if self.groups else "a.v"
        for number, _ in enumerate(more):
            of = f"coalesce(b{number}.v, 0)"
            value += f" + 7 * {f'max({of})' if self.groups else of}"
        partial = " + IF(IS_PARTIAL(), 500, 0)" if self.has(Partial) else ""
        at = "max(a.at)" if self.groups else "a.at"
        joins = "".join(
            f" LEFT JOIN (SELECT k, sum(v) AS v FROM {self._from(read)} GROUP BY k) b{number} ON a.k = b{number}.k"
            for number, read in enumerate(more)
        )
        return (
            f"SELECT a.k, ({value} + {self.code}{partial}) % 997 AS v, {at} AS at FROM {self._from(first)} a{joins}"
            + (" GROUP BY a.k" if self.groups else "")
        )

    def made_of(self, first: Rows, more: tuple[Rows, ...], *, is_partial: bool = False) -> Rows:
        """Return the rows of the query, or the answers of the API."""
        if self.answers:
            keys = {row.k for row in first}
            return tuple(row for row in self.answers if row.k in keys)
        sums: list[dict[int, int]] = []
        for rows in more:
            of: dict[int, int] = {}
            for row in rows:
                of[row.k] = of.get(row.k, 0) + row.v
            sums.append(of)

        def extra(key: int) -> int:
            return sum(7 * of.get(key, 0) for of in sums) + self.code + 500 * is_partial

        if not self.groups:
            return tuple(sorted(Row(row.k, (row.v + extra(row.k)) % 997, row.at) for row in first))
        by_key: dict[int, list[Row]] = {}
        for row in first:
            by_key.setdefault(row.k, []).append(row)
        return tuple(
            sorted(
                Row(key, (sum(row.v for row in rows) + extra(key)) % 997, max(row.at for row in rows))
                for key, rows in by_key.items()
            )
        )
