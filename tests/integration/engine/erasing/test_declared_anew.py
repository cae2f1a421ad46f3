"""Random histories in which tables are declared anew, with other columns and inputs, or not at all, and persons erased.

The oracle computes the rows of each label in Python, from the sources and the declaration that made the label. Some
goods have the number of a person as their owner: an equal number that is no person's value must stay.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.integration.engine.erasing.test_erasing import POINTS, keys, killed, maintain
from tests.keys import DECLARED
from tests.tiny import Tiny, day, described
from waterclock.engine.erasing.erasing import ErasureResult, erase, plan_erasure
from waterclock.engine.erasing.request import build_request
from waterclock.engine.maintenance.reset import prepare_reset, reset
from waterclock.engine.run_opening import apply_flow
from waterclock.storage.lake import vault_folder
from waterclock.storage.token_vault import find_tokens
from waterclock.timelabel.label import instant_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["keys"]  # a fixture of all tests

ERASED, OTHERS = "42424242", ("53535353", "64646464")
PERSONS = (ERASED, *OTHERS)
GOODS = 1000
"""Numbers of orders are smaller, those of goods are not."""

Row = tuple[int, str | None]


@dataclass(frozen=True)
class Query:
    """One declaration of a table. `keeps` is whether an erasure keeps rows, without their persons (APART)."""

    text: str
    column: str
    of_orders: bool
    keeps: bool = False
    is_fold: bool = False


QUERIES = (
    Query("PARTITIONED AS SELECT id, buyer AS client FROM raw.orders", "client", of_orders=True),
    Query("PARTITIONED AS SELECT id, buyer AS person FROM raw.orders", "person", of_orders=True),
    Query("PARTITIONED AS SELECT id, owner AS client FROM raw.goods", "client", of_orders=False),
    Query("PARTITIONED AS SELECT id, owner AS person FROM raw.goods", "person", of_orders=False),
    Query("AS SELECT id, buyer AS client FROM raw.orders", "client", of_orders=True, is_fold=True),
    Query("(id BIGINT KEY, *) MERGE AS SELECT id, owner AS client FROM raw.goods", "client", of_orders=False),
    Query("(id BIGINT KEY, *) MERGE AS SELECT id, buyer AS client FROM raw.orders", "client", of_orders=True),
    Query(
        "PARTITIONED (id BIGINT KEY, buyer {type} SUBJECT customer, page STRING) APART (page) "
        "AS SELECT id, buyer, concat('/', id) AS page FROM raw.orders",
        "buyer",
        of_orders=True,
        keeps=True,
    ),
)
TABLES = ("marts.a", "marts.b", "marts.c")


@dataclass
class Histories:
    """A project, what its source has, and which declaration made each label of each table."""

    tiny: Tiny
    drawn: random.Random
    tokens: bool
    orders: dict[datetime, list[Row]] = field(default_factory=dict)
    goods: dict[datetime, list[Row]] = field(default_factory=dict)
    declared: dict[str, Query] = field(default_factory=dict)
    made: dict[str, dict[datetime, Query]] = field(default_factory=dict)
    is_erased: bool = False
    kept: set[tuple[str, datetime]] = field(default_factory=set)
    known: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    @property
    def type(self) -> str:
        return "STRING" if self.tokens else "BIGINT"

    def declare(self) -> None:
        for name in TABLES:
            if name not in self.declared or self.drawn.random() < 0.6:
                self.declared.pop(name, None)
                if self.drawn.random() < 0.8:
                    self.declared[name] = self.drawn.choice(QUERIES)
        token = " TOKENS" if self.tokens else ""
        flow = f"""{DECLARED}
COLLECT raw.orders PARTITIONED (id BIGINT, buyer {self.type} SUBJECT customer{token}, at TIMESTAMP)
  FROM shop.orders EVERY DAY BY DATA TIME at;
COLLECT raw.goods PARTITIONED (id BIGINT, owner {self.type}, at TIMESTAMP) FROM shop.goods EVERY DAY BY DATA TIME at;
"""
        for name, query in self.declared.items():
            flow += f"TRANSFORM {name} {query.text.format(type=self.type)};\n"
        self.log.append(f"declare { ({name: query.text[:70] for name, query in self.declared.items()}) }")
        self.tiny.declare(flow)

    def add_rows(self, number: int) -> None:
        """Add orders and goods of a day."""
        for rows, table, first, column in ((self.orders, "orders", 10, "buyer"), (self.goods, "goods", GOODS, "owner")):
            of_day = [(first + 10 * number + index, who) for index, who in enumerate((*PERSONS, None))]
            rows[day(number)] = self.drawn.sample(of_day, 3)
            for key, who in rows[day(number)]:
                value = "NULL" if who is None else f"'{who}'"
                self.tiny.shop(
                    f"INSERT INTO {table} (id, {column}, at) VALUES ({key}, {value}, '2020-01-{number:02d} 10:00:00')"
                )

    def run(self, until: int) -> None:
        """Run, and reset each table whose declaration no run can follow."""
        for _ in range(2):
            outcome = self.tiny.run(day(until))
            stopped = {report.group.table for report in outcome.failed} | set(
                outcome.plan.refused if outcome.plan else ()
            )
            for name in {table.removesuffix("_apart") for table in stopped}:
                self.reset(name, until)
            if not stopped:
                break
        else:
            raise AssertionError(described(outcome))
        for name, query in self.declared.items():
            made = self.made.setdefault(name, {})
            for label in map(instant_of, self.tiny.done(name)):
                made.setdefault(label, query)

    def reset(self, name: str, until: int) -> None:
        self.log.append(f"reset {name}")
        self.made.pop(name, None)
        self.kept = {each for each in self.kept if each[0] != name}
        with self.tiny.opened() as work:
            apply_flow(work, day(until))
            for each in (name, f"{name}_apart"):
                todo = prepare_reset(work, each) if each in work.flow.tables else None
                if todo is not None:
                    reset(work, todo, why="a test")

    def restate(self, until: int) -> None:
        """Make a label of a table again."""
        choices = [(name, label) for name in self.declared for label in self.made.get(name, {})]
        if not choices:
            return
        name, label = self.drawn.choice(choices)
        self.log.append(f"recompute {name}@{label}")
        names = [name, f"{name}_apart"] if self.declared[name].keeps else [name]
        with self.tiny.ledger() as ledger:
            for each in names:
                ledger.decisions.request_restate(each, [label], "recompute", who="ann")
        self.made[name].pop(label)
        self.kept.discard((name, label))
        self.run(until)

    def erase(self) -> ErasureResult:
        with self.tiny.opened() as work:
            request = build_request(work, "customer", [ERASED])
            continues = any(each.finished_at is None for each in work.ledger.erasures.list())
            return erase(work, plan_erasure(work, request, continues=continues), why="on request")

    def begin(self) -> None:
        """From here on, no batch has the person. Rows that APART keeps stay until they are made again."""
        if not self.is_erased:
            self.is_erased = True
            self.kept = {(name, label) for name, made in self.made.items() for label in made}

    def erase_until_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        point, nth = self.drawn.choice(POINTS), self.drawn.randrange(1, 5)
        self.log.append(f"erase, killed at {point} {nth}")
        self.remember_tokens()
        self.begin()
        with killed(point, monkeypatch, nth):
            self.erase()

    def erase_all(self) -> None:
        """Erase the person, and assert that all places with remaining rows are named."""
        self.remember_tokens()
        left = {each.place: each.why for each in self.erase().left}
        self.log.append(f"erased; left {left}")
        self.begin()
        wrong = [
            path for path in self.files_with_person() if not any(place.replace(".", "/") in path for place in left)
        ]
        assert wrong == [], self.log
        if not left:
            assert ERASED not in find_tokens(self.vault, PERSONS), self.log

    @property
    def vault(self) -> str:
        return vault_folder(str(self.tiny.root / self.tiny.storage), "customer")

    def remember_tokens(self) -> None:
        self.known |= {token: who for who, token in find_tokens(self.vault, PERSONS).items()}

    def files_with_person(self) -> Iterator[str]:
        """Yield the files with a row of the person that is no row of goods."""
        values = {ERASED, *(token for token, who in self.known.items() if who == ERASED)}
        root = self.tiny.root / self.tiny.storage / "tables"
        for path in sorted(root.rglob("*.parquet")):
            if "_delta_log" in path.parts:
                continue
            for row in pq.ParquetFile(path).read().to_pylist():
                if (row.get("id") or 0) < GOODS and values & {str(value) for value in row.values()}:
                    yield str(path.relative_to(root))
                    break

    def compare(self) -> None:
        """Assert that all tables have the rows of the oracle."""
        self.remember_tokens()
        for name, query in self.declared.items():
            if all(each.column != query.column for each in self.made.get(name, {}).values()):
                continue  # no batch was due since it was declared so
            table = f"{name}_whole" if query.keeps else name
            rows = self.tiny.rows(f"SELECT id, {query.column} FROM {table}")
            found = sorted(
                ((key, None if who is None else self.known.get(str(who), str(who))) for key, who in rows), key=repr
            )
            made = sorted(self.made.get(name, {}).items())
            wanted = [
                row for label, of in (made[-1:] if query.is_fold else made) for row in self.rows_of(of, name, label)
            ]
            wanted = sorted(wanted, key=repr)
            if found != wanted:
                missing, more = (
                    [row for row in of if row not in other] for of, other in ((wanted, found), (found, wanted))
                )
                raise AssertionError("\n".join([f"{name}: {missing=} {more=}", *self.log]))

    def rows_of(self, query: Query, name: str, label: datetime) -> Iterator[Row]:
        for key, who in (self.orders if query.of_orders else self.goods).get(label, ()):
            if not (self.is_erased and query.of_orders and who == ERASED):
                yield key, who
            elif query.keeps and (name, label) in self.kept:
                yield key, None


@pytest.mark.soak
@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_random_declarations(
    seed: int, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *, tokens: bool
) -> None:
    tiny = Tiny(tmp_path, spark)
    value = "TEXT" if tokens else "INT"
    tiny.source("orders", f"id INT, buyer {value}, at TEXT")
    tiny.source("goods", f"id INT, owner {value}, at TEXT")
    drawn = random.Random(seed)
    history = Histories(tiny, drawn, tokens)
    for number in range(1, 6):
        history.add_rows(number)
        history.declare()
        history.run(number + 1)
        history.compare()
        if drawn.random() < 0.3:
            history.restate(number + 1)
            history.compare()
        if number > 1 and drawn.random() < 0.4:
            if drawn.random() < 0.6:
                history.erase_until_killed(monkeypatch)
                if drawn.random() < 0.5:
                    history.declare()
                    history.run(number + 1)
            history.erase_all()
            history.run(number + 1)
            history.compare()
        if drawn.random() < 0.2:
            maintain(tiny, number + 1)
    history.erase_all()
    history.compare()
