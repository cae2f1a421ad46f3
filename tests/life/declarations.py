"""What a table of a life may declare: each word is a part, with its DPL, what it needs, and its rule in plain Python.

A new clause of the grammar is a new `Part` in `PARTS` (or a read in `READS`, a mode in `MODES`). Its rule is written
from the documentation, without a look at planner or engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from tests.life.rows import Row, Rows, Slices

HELD, FAILED, DONE, SKIPPED = "held", "failed", "done", "skipped"
BY_LABEL = frozenset({"PARTITIONED", "APPEND"})
FOLDS = frozenset({"MERGE", "TEMPORAL"})


@dataclass(frozen=True)
class Read:
    """A reference to a table. `days`: how far PAST and UNTIL reach. `via`: a VIEW or a SHARED VIEW of the table.

    Of LATEST `days` is the tick that a label keeps, by the day that begins there; in a declaration 0.
    """

    kind: str
    table: str
    days: int = 0
    via: str = ""

    @property
    def word(self) -> str:
        return self.kind if self.kind != "PLAIN" else "by name"

    @property
    def sql(self) -> str:
        of = self.view or self.table
        if self.kind == "PLAIN":
            return of
        span = f", '{self.days} days'" if self.days else ""
        return f"{self.kind}({of}{span})"

    @property
    def view(self) -> str:
        """The name of the view that is read, if any."""
        names = {
            "VIEW": f"view.{self.table.replace('.', '_')}",
            "SHARED VIEW": f"shared.{self.table.replace('.', '_')}",
        }
        return names.get(self.via, "")


@dataclass(frozen=True)
class Known:
    """What a part's rule goes by besides rows: the label, and the keys of the tables that are referred to."""

    label: int
    keys: frozenset[int] = frozenset()


class Part:
    """One declaration of a table. `needs` decides where it is legal; the rest is text, and the rule."""

    word: ClassVar[str] = ""

    @classmethod
    def fits(cls, of: Declared) -> bool:
        """Tell whether `check` takes it there."""
        del of
        return True

    @classmethod
    def drawn(cls, random: Random) -> Part:
        del random
        return cls()

    @property
    def clause(self) -> str:
        """What stands among the clauses."""
        return ""

    @property
    def of_key(self) -> str:
        """What stands behind the key's column."""
        return ""

    @property
    def lookback(self) -> str:
        """What stands behind BY DATA TIME."""
        return ""

    @property
    def column(self) -> str:
        """Further columns."""
        return ""

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        """Return the rows that it lets stay; `past`: the table's own slices before; `at`: what else it goes by."""
        del past, at
        return rows

    def verdict(self, rows: Rows) -> str:
        """Return what becomes of a batch of these rows."""
        del rows
        return DONE


@dataclass(frozen=True)
class Quarantine(Part):
    """Rows that break a rule are set aside."""

    word = "ELSE QUARANTINE"

    @property
    def clause(self) -> str:
        return "EXPECT v % 10 <> 3 AS no_three ELSE QUARANTINE"

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        del past, at
        return tuple(row for row in rows if row.v % 10 != 3)


@dataclass(frozen=True)
class Drop(Part):
    """Rows that break a rule are dropped."""

    word = "ELSE DROP"

    @property
    def clause(self) -> str:
        return "EXPECT v % 10 <> 4 AS no_four ELSE DROP"

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        del past, at
        return tuple(row for row in rows if row.v % 10 != 4)


@dataclass(frozen=True)
class Hold(Part):
    """A batch that breaks a rule is sealed, and shown once it is released."""

    word = "ELSE HOLD"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        # at which tick of LATEST a batch was held is not seen
        is_latest = any(read.kind == "LATEST" for read in of.all_reads)
        return of.mode in BY_LABEL | FOLDS and not of.is_snapshot and not of.has(Fail) and not is_latest

    @property
    def clause(self) -> str:
        return "EXPECT count_if(v % 20 = 7) = 0 AS no_seven ELSE HOLD"

    def verdict(self, rows: Rows) -> str:
        return HELD if any(row.v % 20 == 7 for row in rows) else DONE


@dataclass(frozen=True)
class Fail(Part):
    """A batch that breaks a rule fails, and is made again by `retry`."""

    word = "ELSE FAIL"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.mode in BY_LABEL | FOLDS and not of.is_snapshot and not of.has(Hold)

    @property
    def clause(self) -> str:
        return "EXPECT count_if(v % 20 = 9) = 0 AS no_nine"

    def verdict(self, rows: Rows) -> str:
        return FAILED if any(row.v % 20 == 9 for row in rows) else DONE


@dataclass(frozen=True)
class KeyOnce(Part):
    """Of rows of a key the last one by time stays; the others are dropped."""

    word = "KEY ORDER BY"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.mode in BY_LABEL and not of.has(KeyPast) and not of.groups

    @property
    def of_key(self) -> str:
        return "KEY ORDER BY (at, v) ELSE DROP"

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        del past, at
        return _last_of_each(rows)


@dataclass(frozen=True)
class KeyPast(Part):
    """As KEY ORDER BY, and no row stays whose key is in the table's own labels of the days up to the window's end."""

    days: int = 2
    word = "KEY PAST"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.kind == "TRANSFORM" and of.mode == "PARTITIONED" and not of.has(KeyOnce)

    @classmethod
    def drawn(cls, random: Random) -> Part:
        return cls(random.choice((2, 3)))

    @property
    def of_key(self) -> str:
        return f"KEY PAST {self.days} DAYS ORDER BY (at, v) ELSE DROP"

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        del at
        known = {row.k for each in past.values() for row in each}
        return _last_of_each(tuple(row for row in rows if row.k not in known))


def _last_of_each(rows: Rows) -> Rows:
    last: dict[int, Row] = {}
    for row in rows:
        if row.k not in last or (row.at, row.v) >= (last[row.k].at, last[row.k].v):
            last[row.k] = row
    return tuple(sorted(last.values()))


@dataclass(frozen=True)
class Lookback(Part):
    """Each batch reads the windows of some days before it again."""

    days: int = 2
    word = "LOOKBACK"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.kind == "COLLECT" and not of.is_snapshot and not of.has(Changed)

    @classmethod
    def drawn(cls, random: Random) -> Part:
        return cls(random.choice((1, 2, 3)))

    @property
    def lookback(self) -> str:
        return f" LOOKBACK {self.days} DAYS"


@dataclass(frozen=True)
class Changed(Part):
    """Each batch reads those windows of some days before it again of which the source says that they changed."""

    days: int = 2
    word = "CHANGED BY"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.kind == "COLLECT" and not of.is_snapshot and of.mode in BY_LABEL and not of.has(Lookback)

    @classmethod
    def drawn(cls, random: Random) -> Part:
        return cls(random.choice((1, 2, 3)))

    @property
    def lookback(self) -> str:
        return f" LOOKBACK {self.days} DAYS CHANGED BY seen"


@dataclass(frozen=True)
class Report(Part):
    """Batches whose inputs changed stay as they are until `recompute`."""

    word = "ON RESTATE REPORT"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.kind == "TRANSFORM" and of.mode in BY_LABEL

    @property
    def clause(self) -> str:
        return "ON RESTATE REPORT"


@dataclass(frozen=True)
class Sequential(Part):
    """Labels are made one after the other."""

    word = "SEQUENTIAL"

    @property
    def clause(self) -> str:
        return "SEQUENTIAL"


@dataclass(frozen=True)
class Deletes(Part):
    """Rows with `gone` end their key."""

    word = "DELETE WHEN"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.kind == "COLLECT" and of.mode in FOLDS and not of.is_snapshot


@dataclass(frozen=True)
class ByTime(Part):
    """Of a key's rows the last by time counts, in whichever label it came."""

    word = "ORDER BY"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.kind == "COLLECT" and of.mode == "MERGE"


@dataclass(frozen=True)
class Refers(Part):
    """The key refers to a TEMPORAL table at the row's time: FLAT may follow it."""

    parent: str = ""
    word = "REFERENCES"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.kind == "COLLECT" and of.mode == "PARTITIONED"

    @property
    def of_key(self) -> str:
        return f"REFERENCES {self.parent} ROLE p AT at"


@dataclass(frozen=True)
class Demands(Part):
    """Rows whose key is not in another table are dropped."""

    parent: str = ""
    word = "REFERENCES ELSE DROP"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.kind == "TRANSFORM" and of.mode in BY_LABEL

    @property
    def of_key(self) -> str:
        return f"REFERENCES {self.parent} ELSE DROP"

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        del past
        return tuple(row for row in rows if row.k in at.keys)


@dataclass(frozen=True)
class Retire(Part):
    """A column ends on a day; until then rows bring it, or it is computed."""

    day: int = 5
    word = "RETIRE AS"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.kind == "COLLECT" and of.mode in BY_LABEL and not of.is_snapshot

    @classmethod
    def drawn(cls, random: Random) -> Part:
        return cls(random.choice((3, 5, 7)))

    @property
    def column(self) -> str:
        return f", old BIGINT AS (v * 2) RETIRE '2020-01-{self.day:02d}'"

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        del past
        if at.label >= self.day:
            return tuple(row._replace(old=None) for row in rows)
        return tuple(row if row.old is not None else row._replace(old=row.v * 2) for row in rows)


PARTS: tuple[type[Part], ...] = (
    Quarantine, Drop, Hold, Fail, KeyOnce, KeyPast, Lookback, Changed, Report, Sequential, Deletes, ByTime,
    Retire,
)  # fmt: skip
"""What is drawn by chance; REFERENCES is drawn where a parent is there."""
READS = ("PLAIN", "PAST", "HISTORY", "PREVIOUS", "UNTIL", "FLAT", "LATEST")
MODES = {
    "COLLECT": ("PARTITIONED", "PARTITIONED", "APPEND", "MERGE", "TEMPORAL"),
    "TRANSFORM": ("PARTITIONED", "PARTITIONED", "APPEND", "REPLACE", "MERGE", "TEMPORAL"),
}


@dataclass
class Declared:
    """A table of a life: its mode, its parts, what it reads, and the number in its query that stands for its code."""

    kind: str
    name: str
    mode: str
    is_snapshot: bool = False
    parts: list[Part] = field(default_factory=list)
    reads: tuple[Read, ...] = ()
    groups: bool = False
    code: int = 0
    start: int = 1
    was: str = ""
    of: str = ""
    origin: str = ""
    odd: tuple[Read, ...] = ()
    """What labels of odd days read, where the table chooses by its label."""

    def has(self, *kinds: type[Part]) -> bool:
        return any(isinstance(part, kinds) for part in self.parts)

    def part(self, kind: type[Part]) -> Part | None:
        return next((part for part in self.parts if isinstance(part, kind)), None)

    @property
    def lookback_days(self) -> int:
        found = self.part(Lookback) or self.part(Changed)
        return found.days if isinstance(found, Lookback | Changed) else 0

    @property
    def is_keyed(self) -> bool:
        """Whether the source holds one row of each key: two of one key have no order in a snapshot."""
        return self.is_snapshot and self.mode == "TEMPORAL"

    @property
    def is_sequential(self) -> bool:
        own = any(read.table == self.name for read in self.all_reads)
        return own or self.mode in FOLDS or self.has(Sequential, KeyPast)

    @property
    def words(self) -> frozenset[str]:
        """All that the table declares, for the count of pairs."""
        kind = {"COLLECT": "snapshot" if self.is_snapshot else "BY DATA TIME", "PUBLISH": "PUBLISH"}
        first = {kind.get(self.kind, "TRANSFORM"), f"{self.mode} table"}
        own = {"PREVIOUS of itself" for read in self.all_reads if read.table == self.name}
        reads = {read.word for read in self.all_reads if read.table != self.name} | ({"WHEN"} if self.odd else set())
        vias = {read.via for read in self.all_reads if read.via}
        return frozenset(first | own | reads | vias | {part.word for part in self.parts})

    @property
    def all_reads(self) -> tuple[Read, ...]:
        return tuple(dict.fromkeys(self.reads + self.odd))

    def reads_at(self, label: int) -> tuple[Read, ...]:
        """Return what the query of a label reads."""
        return self.odd if self.odd and label % 2 else self.reads

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
        return {"COLLECT": self._collect, "TRANSFORM": self._transform, "PUBLISH": self._publish}[self.kind]()

    def _columns(self, *, gone: bool) -> str:
        key = " ".join(part.of_key for part in self.parts if part.of_key)
        if self.mode in FOLDS:
            key = f"KEY {key}"
        more = "".join(part.column for part in self.parts)
        return f"(k BIGINT {key}, v BIGINT, at TIMESTAMP{', gone BIGINT' if gone else ''}{more})"

    def _mode(self) -> str:
        at = "" if self.is_snapshot else " AT at"
        text = {"PARTITIONED": "", "REPLACE": "", "TEMPORAL": f"TEMPORAL{at}"}.get(self.mode, self.mode)
        text += " ORDER BY at" if self.has(ByTime) else ""
        text += " DELETE WHEN gone = 1" if self.has(Deletes) else ""
        # `gone` is data where it deletes nothing, and no attribute of versions
        return text + (" TRACK (v)" if self.mode == "TEMPORAL" and self.kind == "COLLECT" else "")

    def _clauses(self) -> str:
        return " ".join(part.clause for part in self.parts if part.clause)

    def _collect(self) -> str:
        type_ = "PARTITIONED " if self.mode == "PARTITIONED" else ""
        looks = "".join(part.lookback for part in self.parts)
        by = "" if self.is_snapshot else f"BY DATA TIME at{looks}"
        return (
            f"COLLECT {self.name} {type_}{self._columns(gone=True)} FROM shop.{self.source} EVERY DAY "
            f"START '2020-01-{self.start:02d}' {by} {self._mode()} {self._clauses()}{self._was()};"
        )

    def _transform(self) -> str:
        type_ = "PARTITIONED " if self.mode == "PARTITIONED" else ""
        return (
            f"TRANSFORM {self.name} {type_}{self._columns(gone=False)} {self._mode()} {self._clauses()}{self._was()} "
            f"{self._queries()};"
        )

    def _publish(self) -> str:
        return f"PUBLISH {self.of} (k, v) TO {self.name};"

    def _was(self) -> str:
        return f" WAS {self.was}" if self.was else ""

    @property
    def source(self) -> str:
        return (self.origin or self.name).partition(".")[2]

    shapes: dict[str, str] = field(default_factory=dict)
    """The mode of each table that is read, to know the name of its time."""

    def _from(self, read: Read) -> str:
        at = "rec_eff_time" if self.shapes[read.table] == "TEMPORAL" and not read.via else "at"
        v = "v + coalesce(v_p, 0) AS v" if read.kind == "FLAT" else "v"
        return f"(SELECT k, {v}, {at} AS at FROM {read.sql})"

    def _queries(self) -> str:
        if not self.odd:
            return f"AS {self._query(self.reads)}"
        return f"WHEN day(WINDOW_START()) % 2 = 0 AS {self._query(self.reads)} ELSE AS {self._query(self.odd)}"

    def _query(self, reads: tuple[Read, ...]) -> str:
        """Return a query of the rows of the first read, with the sum of each further one of the same key."""
        first, *more = reads
        value = "sum(a.v)" if self.groups else "a.v"
        for number, _ in enumerate(more):
            of = f"coalesce(b{number}.v, 0)"
            value += f" + 7 * {f'max({of})' if self.groups else of}"
        at = "max(a.at)" if self.groups else "a.at"
        joins = "".join(
            f" LEFT JOIN (SELECT k, sum(v) AS v FROM {self._from(read)} GROUP BY k) b{number} ON a.k = b{number}.k"
            for number, read in enumerate(more)
        )
        return f"SELECT a.k, ({value} + {self.code}) % 997 AS v, {at} AS at FROM {self._from(first)} a{joins}" + (
            " GROUP BY a.k" if self.groups else ""
        )

    def made_of(self, first: Rows, more: tuple[Rows, ...]) -> Rows:
        """Return what the query makes."""
        sums: list[dict[int, int]] = []
        for rows in more:
            of: dict[int, int] = {}
            for row in rows:
                of[row.k] = of.get(row.k, 0) + row.v
            sums.append(of)

        def extra(key: int) -> int:
            return sum(7 * of.get(key, 0) for of in sums) + self.code

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
