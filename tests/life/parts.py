"""The words of a declaration: each is a part with its DPL, its requirements and its rule in plain Python.

A new clause of the grammar is a new `Part` in `PARTS` (or a read in `READS`, a mode in `MODES`). Its rule is written
from the documentation only, independently of planner and engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tests.life.part import BY_LABEL, DONE, FAILED, FOLDS, HELD, Known, Part
from tests.life.people import Granted, Impersonal, Personal, Subject
from tests.life.rows import DAY, Row, Rows, Slices

if TYPE_CHECKING:
    from tests.life.declarations import Declared


@dataclass(frozen=True)
class Quarantine(Part):
    """Rows that break a rule are quarantined."""

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
    """A batch that breaks a rule is sealed, and becomes visible once it is released."""

    word = "ELSE HOLD"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        # whether a held batch has taken its files is not documented
        is_legal = of.mode in BY_LABEL | FOLDS and not of.is_snapshot and not of.has(Fail) and not of.is_by_file
        return (is_legal or of.is_form) and not (of.mode in FOLDS and of.has(OverTable))

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
        return of.mode in BY_LABEL | FOLDS and not of.is_snapshot and not of.has(Hold, Groups)

    @property
    def clause(self) -> str:
        return "EXPECT count_if(v % 20 = 9) = 0 AS no_nine"

    def verdict(self, rows: Rows) -> str:
        return FAILED if any(row.v % 20 == 9 for row in rows) else DONE


@dataclass(frozen=True)
class Groups(Fail):
    """Like Fail, by a rule about the smallest group: each value has a kind, except 9."""

    word = "l_diversity"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return super().fits(of) and not of.has(Fail)

    @property
    def clause(self) -> str:
        return "EXPECT l_diversity(nullif(v % 20, 9), v) >= 1 AND k_anonymity(v) >= 1 AS no_nine"


@dataclass(frozen=True)
class OverTable(Part):
    """A batch fails if the table with its rows breaks a rule."""

    word = "OVER TABLE"
    is_of_table = True

    @classmethod
    def fits(cls, of: Declared) -> bool:
        # the order in which LOOKBACK changes the windows of a collect that folds is not documented
        is_known = of.mode in BY_LABEL or (of.kind == "TRANSFORM" and of.mode in FOLDS and not of.has(Hold))
        return is_known and not of.is_snapshot

    @property
    def clause(self) -> str:
        return "EXPECT count_if(v % 20 = 1) = 0 AS no_one OVER TABLE"

    def verdict(self, rows: Rows) -> str:
        return FAILED if any(row.v % 20 == 1 for row in rows) else DONE


@dataclass(frozen=True)
class KeyOnce(Part):
    """Of each key the last row by time is kept; the others are dropped."""

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
    """Like KEY ORDER BY, and drops rows whose key is in the table's own labels of the days up to the window's end."""

    days: int = 2
    word = "KEY PAST"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        is_alone = not of.has(KeyOnce, Closes, Unshuffled) and not of.answers
        return of.kind == "TRANSFORM" and of.mode == "PARTITIONED" and is_alone

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        return cls(random.choice((2, 3)) * of.size)

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
        return of.kind == "COLLECT" and of.is_by_data_time and not of.has(Changed)

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        return cls(random.choice((1, 2, 3)) * of.size)

    @property
    def lookback(self) -> str:
        return f" LOOKBACK {self.days} DAYS"


@dataclass(frozen=True)
class Changed(Part):
    """Each batch reads windows of some days before it again if the source reports them as changed."""

    days: int = 2
    word = "CHANGED BY"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.kind == "COLLECT" and of.is_by_data_time and of.mode in BY_LABEL and not of.has(Lookback)

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        return cls(random.choice((1, 2, 3)) * of.size)

    @property
    def lookback(self) -> str:
        return f" LOOKBACK {self.days} DAYS CHANGED BY seen"


@dataclass(frozen=True)
class Report(Part):
    """Batches whose inputs changed stay as they are until `recompute`."""

    word = "ON RESTATE REPORT"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        is_reopened = any(isinstance(part, Closes) and part.lateness for part in of.parts)
        return of.kind == "TRANSFORM" and of.mode in BY_LABEL and not is_reopened

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
    """Rows with `gone` delete their key."""

    word = "DELETE WHEN"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.kind == "COLLECT" and of.mode in FOLDS and not of.is_snapshot


@dataclass(frozen=True)
class ByTime(Part):
    """Of a key's rows the last one by time counts, in whichever label it arrived."""

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
    """Rows whose key is missing in another table are dropped."""

    parent: str = ""
    word = "REFERENCES ELSE DROP"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        is_alone = not of.has(Partial, Unshuffled) and not of.answers
        return of.kind == "TRANSFORM" and of.mode in BY_LABEL and is_alone

    @property
    def of_key(self) -> str:
        return f"REFERENCES {self.parent} ELSE DROP"

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        del past
        return tuple(row for row in rows if row.k in at.keys)


@dataclass(frozen=True)
class Retire(Part):
    """A column ends on a day, which is a `date` of January; until then rows contain it, or it is computed."""

    day: int = 5
    date: int = 5
    word = "RETIRE AS"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.kind == "COLLECT" and of.mode in BY_LABEL and not of.is_snapshot

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        per, count = 24 // of.hours, random.choice((1, 2, 3))
        date = 2 * count + 1 if per == 1 else count + 1
        return cls(1 + (date - 1) * per, date)

    @property
    def column(self) -> str:
        return f", old BIGINT AS (v * 2) RETIRE '2020-01-{self.date:02d}'"

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        del past
        if at.label >= self.day and not at.is_read_whole:
            return tuple(row._replace(old=None) for row in rows)
        return tuple(row if row.old is not None else row._replace(old=row.v * 2) for row in rows)


@dataclass(frozen=True)
class Retain(Part):
    """Only the windows of the last days are read, and `maintain` drops older ones."""

    days: int = 3
    word = "RETAIN"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.mode in BY_LABEL and not of.is_snapshot

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        return cls(random.choice((3, 3, 4)) * of.size)

    @property
    def clause(self) -> str:
        return f"RETAIN {self.days} DAYS"


@dataclass(frozen=True)
class Sorted(Part):
    """The rows of each file are sorted; any order leaves the set of rows unchanged."""

    columns: tuple[str, ...] = ("v",)
    word = "SORT BY"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return not of.has(Clustered, Bucketed)

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        names = ["k", "v", "rec_eff_time" if of.mode == "TEMPORAL" else "at"]
        return cls(tuple(random.sample(names, random.choice((1, 2, 3)))))

    @property
    def clause(self) -> str:
        return f"SORT BY ({', '.join(self.columns)})"


@dataclass(frozen=True)
class Clustered(Part):
    """The rows of a label are distributed to files by values; any columns leave the set of rows unchanged.

    By the key alone it is PARTITION BY: a file for each value. A label of a life has fewer than 200 keys.
    """

    columns: tuple[str, ...] = ("v",)
    word = "CLUSTER BY"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.mode not in FOLDS and not of.has(Sorted, Bucketed, Unshuffled)

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        del of
        return cls(tuple(random.sample(["k", "v", "at"], random.choice((1, 2, 3)))))

    @property
    def clause(self) -> str:
        word = "PARTITION BY" if self.columns == ("k",) else "CLUSTER BY"
        return f"{word} ({', '.join(self.columns)})"


@dataclass(frozen=True)
class Bucketed(Part):
    """The rows of a label are in buckets; any buckets leave the set of rows unchanged."""

    key: str = "k"
    number: int = 4
    word = "BUCKET BY"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return of.mode == "PARTITIONED" and not of.has(Sorted, Clustered, Unshuffled)

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        del of
        return cls(key=random.choice(("k", "k", "v")), number=random.choice((2, 4)))

    @property
    def clause(self) -> str:
        return f"BUCKET BY ({self.key}) INTO {self.number}"


@dataclass(frozen=True)
class Unshuffled(Part):
    """A batch that would move rows between tasks is refused. None does, since one task reads all rows of an input."""

    word = "SHUFFLE NONE"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        # FLAT, KEY PAST and older states of folds are made with shuffles
        is_plain = not any(read.kind == "FLAT" or of.shapes[read.table] in FOLDS for read in of.all_reads)
        is_transform = of.kind == "TRANSFORM" and of.mode in BY_LABEL | {"REPLACE"} and not of.answers
        return is_transform and is_plain and not of.has(KeyPast, Clustered, Bucketed)

    @property
    def clause(self) -> str:
        return "SHUFFLE NONE"


@dataclass(frozen=True)
class Partial(Part):
    """Some days after its window a batch runs without missing inputs; it is made whole later."""

    days: int = 1
    word = "PARTIAL AFTER"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        # older states of REPLACE tables are made only if they are read
        is_plain = not any(of.shapes[read.table] == "REPLACE" for read in of.all_reads)
        return of.kind == "TRANSFORM" and is_plain and not of.answers

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        del random
        return cls(max([1, *(read.days for read in of.all_reads if read.kind == "UNTIL")]))

    @property
    def clause(self) -> str:
        return f"PARTIAL AFTER {self.days} DAYS"

    def is_over(self, end: int, today: int) -> bool:
        """Return whether a batch whose window ends at `end` has waited long enough."""
        return today >= end + self.days


@dataclass(frozen=True)
class Closes(Part):
    """A window of a table that reads UNTIL is closed, and made, once a condition is true for the rows so far."""

    kind: str = "time"
    by_hand: bool = False
    hours: int = 24
    lateness: int = 0
    """The days of MAX LATENESS, if any."""
    word = "CLOSE WHEN"
    chance = 0.7

    @classmethod
    def fits(cls, of: Declared) -> bool:
        reads = {read.table for read in of.reads if read.kind == "UNTIL"}
        # more tables may only be read by their watermarks
        is_one = len(reads) == 1 and not of.odd
        return of.kind == "TRANSFORM" and of.mode == "PARTITIONED" and is_one and not of.has(KeyPast)

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        kind = random.choice(("time", "time", "time", "key", "count", "after", "nobody"))
        is_reopened = kind in {"time", "key"} and not of.has(Report) and random.random() < 0.5
        return cls(kind, kind == "nobody" or random.random() < 0.4, of.hours, random.choice((1, 3)) * is_reopened)

    @property
    def words(self) -> frozenset[str]:
        return frozenset({self.word, *["MAX LATENESS"] * bool(self.lateness)})

    @property
    def has_time(self) -> bool:
        """Return whether the condition names the time by which late rows are recognised."""
        return self.kind in {"time", "key"}

    @property
    def clause(self) -> str:
        condition = {
            "time": "watermark(at) >= WINDOW_END()",
            "key": "watermark(at, k) >= WINDOW_END()",
            "count": "count(*) >= 4",
            "after": f"max(at) >= WINDOW_END() + INTERVAL {self.hours // 2} HOURS",
        }.get(self.kind, "")
        late = f" MAX LATENESS {self.lateness} DAYS" if self.lateness else ""
        return "CLOSE WHEN " + " OR ".join(filter(None, (condition, "closed_by_hand()" * self.by_hand))) + late

    def holds(self, rows: Rows, end: int) -> bool:
        """Return whether the condition is true for rows; `end`: the day that begins at the window's end."""
        ends = (end - 1) * DAY
        if self.kind == "count":
            return len(rows) >= 4
        if self.kind == "nobody" or not rows:
            return False
        if self.kind == "key":
            return all(max(row.at for row in rows if row.k == key) >= ends for key in {row.k for row in rows})
        return max(row.at for row in rows) >= ends + (DAY // 2 if self.kind == "after" else 0)


PARTS: tuple[type[Part], ...] = (
    Quarantine, Drop, Hold, Fail, Groups, OverTable, KeyOnce, KeyPast, Lookback, Changed, Report, Sequential, Deletes,
    ByTime, Retire, Retain, Sorted, Clustered, Bucketed, Unshuffled, Partial, Closes, Personal, Impersonal, Subject,
    Granted,
)  # fmt: skip
"""The parts that are drawn by chance; REFERENCES is drawn if there is a parent table."""
READS = ("PLAIN", "PAST", "HISTORY", "PREVIOUS", "UNTIL", "FLAT", "LATEST")
MODES = {
    "COLLECT": ("PARTITIONED", "PARTITIONED", "APPEND", "MERGE", "TEMPORAL"),
    "TRANSFORM": ("PARTITIONED", "PARTITIONED", "APPEND", "REPLACE", "MERGE", "TEMPORAL"),
}
