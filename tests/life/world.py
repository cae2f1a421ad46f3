"""The engine's side of a life: a project in a folder, with operations on it, failures and damage."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.apis import Space
from tests.faults.killing import gateway_of, wait_for_leases
from tests.keys import hashed
from tests.life.books import Closed, Seen
from tests.life.declarations import FOREIGN, Declared
from tests.life.drawing import Flow, statements
from tests.life.part import BY_LABEL, DONE, FOLDS, HELD
from tests.life.parts import Closes, Retain, Retire
from tests.life.people import PEOPLE, SECRET, Apart, Persons, Shown, Value, is_masked
from tests.life.rows import DAY, File, Row, Rows, Version, instant, minute
from tests.life.steward import Steward
from tests.life.vault import PERSONS, Vault
from tests.tiny import TOML, Tiny
from waterclock.batches.ledger_snapshot import AT_LAST, BEGINNING, FOREVER
from waterclock.cli.actions.close import close_window
from waterclock.cli.actions.skip import skip_batches
from waterclock.engine.erasing.erasing import erase, plan_erasure
from waterclock.engine.erasing.request import build_request
from waterclock.engine.ledger_export import export_ledger
from waterclock.engine.maintenance import maintain
from waterclock.engine.maintenance.ledger_rebuild import rebuild_ledger
from waterclock.engine.maintenance.rebuild import plan_rebuild, rebuild_table
from waterclock.engine.query.query import query
from waterclock.engine.query.ticks import RequestedTick
from waterclock.engine.run_opening import apply_flow
from waterclock.engine.runner_name import runner_name
from waterclock.errors import ProjectErrors
from waterclock.faults import inject_faults
from waterclock.permissions.users_and_roles import SignIn
from waterclock.storage.slices.manifest import read_manifest
from waterclock.timelabel.label import label_of

LEASE = 2.0
REPOSITORY = Path(__file__).parents[2]
YEARS_LATER = timedelta(days=800)  # later than any retention time


class Struck(Exception):
    """A failure injected by a life: its text names a transient reason, so that the run retries."""


@dataclass
class Strike:
    """Makes a run fail once, at the nth of its steps."""

    after: int

    def __call__(self, point: str) -> None:
        self.after -= 1
        if self.after == 0:
            raise Struck(f"{point} is temporarily unavailable")


def toml_of(flow: Flow, forms: Mapping[str, str] | None = None) -> str:
    """Return the project file of a flow, with users, and with an API that has the answers if a table queries one.

    `forms`: the options of the connection of forms, if there are any.
    """
    answers = {row for table in flow.values() for row in table.answers}
    listed = ", ".join(f'{name} = "{value}"' for name, value in (forms or {}).items())
    forms_line = f"connections.forms = {{{{ {listed} }}}}\n" if listed else ""
    if not answers:
        return TOML + forms_line + PEOPLE
    space = Space()
    hours = next(iter(flow.values())).hours
    space.set(rows=[{"id": row.k, "v": row.v, "at": f"{instant(row.at, hours):%FT%TZ}"} for row in sorted(answers)])
    return TOML + forms_line + f'connections.api = {{{{ url = "{space.url}", tries = 2, timeout = 20 }}}}\n' + PEOPLE


@dataclass
class World:
    """The engine's side of a life: a project in a folder."""

    tiny: Tiny
    flow: Flow
    hours: int = 24
    """The hours of a day of the oracle."""
    steward: Steward | None = None
    """The database of its forms, if it has any."""
    copies: dict[str, Path] = field(default_factory=dict)
    """The kept copy of a table's log, by table."""

    def moment(self, number: int) -> datetime:
        """Return the instant at which a day begins."""
        return instant(number * DAY - DAY, self.hours)

    @cached_property
    def labels(self) -> dict[str, int]:
        """The day that begins at a label, by label."""
        return {label_of(self.moment(number)): number for number in range(1, 40)}

    @cached_property
    def vault(self) -> Vault:
        """The tokens of persons."""
        return Vault(self.tiny.root / self.tiny.storage)

    def _key(self, key: int | str) -> int:
        """Return the key of the oracle."""
        return self.vault.key(key) if isinstance(key, str) else key

    def _minute(self, at: datetime) -> int:
        return minute(at, self.hours)

    def declare(self) -> None:
        self.tiny.declare(statements(self.flow))
        (self.tiny.root / "secrets").mkdir(exist_ok=True)
        (self.tiny.root / "secrets" / "pii").write_text(SECRET)
        for table in self.flow.values():
            if table.way == "REPLACE WHERE":
                self._let_write(table.name.partition(".")[2], table)

    def _let_write(self, destination: str, table: Declared) -> None:
        """Add a row of another writer to a destination, before the first delivery."""
        with closing(sqlite3.connect(self.tiny.root / "out.sqlite")) as database, database:
            key, value = ("TEXT" if is_text else "BIGINT" for is_text in (table.has_texts, is_masked(table.decision)))
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (destination,)).fetchone():
                database.execute(f"CREATE TABLE {destination} (k {key}, v {value})")
                database.execute(f"INSERT INTO {destination} VALUES ({table.foreign_sql}, 7)")

    def fill(self, name: str, rows: list[Row], seen: dict[int, str]) -> None:
        """Fill a source with its current rows; `seen`: when a row was changed last, by the row's time."""
        columns = f"k {'TEXT' if self.flow[name].has_texts else 'INTEGER'}, v INTEGER, at TEXT, gone INTEGER, seen TEXT"
        told: list[tuple[Any, ...]] = [
            (row.k, row.v, f"{instant(row.at, self.hours):%F %T}", row.gone, seen[row.at]) for row in rows
        ]
        if rows and rows[0].old is not None:
            columns, told = columns + ", old INTEGER", [(*it, row.old) for it, row in zip(told, rows, strict=True)]
        self.tiny.source(self.flow[name].source, columns, told)

    def land(self, name: str, file: File) -> None:
        """Put a file where a table collects it; its stamp is within its day, or the day's last second."""
        end = self.moment(file.day + 1)
        at = self.moment(file.day) + timedelta(minutes=file.place) if file.place else end - timedelta(seconds=1)
        has_old = any(row.old is not None for row in file.rows)
        lines = ["k,v,at,gone" + ",old" * has_old]
        for row in file.rows:
            told = [row.k, row.v, f"{instant(row.at, self.hours):%F %T}", row.gone, *[row.old] * has_old]
            lines.append(",".join(map(str, told)))
        self.tiny.land(self.flow[name].source, at, "\n".join(lines) + "\n")

    def run(self, today: int, strike: Strike | None, *, runners: int = 1, killed_after: int = 0) -> Any:
        """Run the due batches; after a strike, repeat until another run would do no work.

        `killed_after`: the number of steps after which a runner in a separate process is killed.
        """
        if self.steward is not None:
            self.steward.at = self.moment(today)
        if killed_after:
            self._run_and_kill(today, killed_after)
        if runners > 1:
            # each has its own name, as processes have: a runner's files are recognised by it
            each = [
                replace(self.tiny, settings=replace(self.tiny.settings, runner=runner_name())) for _ in range(runners)
            ]
            with ThreadPoolExecutor(runners) as pool:
                list(pool.map(lambda tiny: tiny.run(self.moment(today)), each))
        if strike is not None:
            with inject_faults(strike):
                self.tiny.run(self.moment(today))
        for _ in range(20):
            outcome = self.tiny.run(self.moment(today))
            away = {it.table for it in outcome.held_back}  # ready by our clock, not by the source's
            groups = [it for it in (outcome.plan.groups if outcome.plan else ()) if it.table not in away]
            if not self.tiny.open_claims() and not groups:
                break
            time.sleep(LEASE / 2)
        return outcome

    def _run_and_kill(self, today: int, after: int) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.life.killed",
            str(self.tiny.root),
            self.moment(today).isoformat(),
            str(after),
        ]
        there = gateway_of(self.tiny.spark)
        # it ends by SIGKILL, or with 0 if it had fewer steps
        ended = subprocess.run(command, cwd=REPOSITORY, env=os.environ | there, timeout=300, check=False)
        assert ended.returncode in {0, -9}, f"a runner ended with {ended.returncode}"
        wait_for_leases(self.tiny)

    def seen(self) -> dict[str, Seen]:
        """Read the state of all tables."""
        with self.tiny.opened() as work:
            status: dict[str, dict[int, str]] = {name: {} for name in self.flow}
            held: set[int] = set()  # the claims of held batches
            for row in work.ledger.past.rows("batches"):
                if row["status"] and row["table"] in status:
                    status[row["table"]][self.labels[row["timelabel"]]] = row["status"]
                    held |= {row["claim"]} if row["status"] == HELD else set()
            ticks: dict[str, dict[int, dict[str, int]]] = {name: {} for name in self.flow}
            for row in work.ledger.past.rows("inputs"):
                if (
                    row["read"].startswith("LATEST(")
                    and row["table"] in ticks
                    and (row["is_current"] or row["claim"] in held)
                ):
                    number = self.labels[row["timelabel"]]
                    ticks[row["table"]].setdefault(number, {})[row["input"]] = self.labels[label_of(row["high"])]
            closed = {name: self._closed(work, name) for name, table in self.flow.items() if table.has(Closes)}
            return {
                name: Seen(
                    status[name], self._rows(work, table), self._slices(work, table), ticks[name], closed.get(name, {})
                )
                for name, table in self.flow.items()
                if table.kind != "PUBLISH"
            }

    def _slices(self, work: Any, table: Declared) -> dict[int, Rows]:
        """Return the raw rows of each label of a table whose visible rows are not stored by label."""
        if not table.has(Retain) and not table.is_form and (table.mode not in FOLDS or table.is_snapshot):
            return {}
        folder, found = work.folder(table), {}
        begin = work.ledger.maintenance.drop_boundary(table.name, by=FOREVER) or BEGINNING
        for piece in work.ledger.reads.slices(table.name, begin, FOREVER):
            rows = [
                Row(self._key(row["k"]), row["v"], self._minute(row["at"]), row.get("gone") or 0, row.get("old"))
                for file in read_manifest(folder, piece.slice_path).files
                for row in pq.read_table(Path(folder, file.path)).to_pylist()
            ]
            found[self.labels[label_of(piece.label)]] = tuple(sorted(rows))
        return found

    def _rows(self, work: Any, table: Declared, as_of: RequestedTick | None = None) -> Any:
        gone = "gone" if table.kind == "COLLECT" and not table.is_form else "0"
        old = "old" if table.has(Retire) else "CAST(NULL AS BIGINT)"
        if table.mode == "TEMPORAL":
            found = query(
                work, f"SELECT k, v, rec_eff_time, rec_exp_time FROM {table.name}", limit=10_000, as_of=as_of
            ).rows
            made = [Version(self._key(k), v, self._minute(at), self._minute(until)) for k, v, at, until in found]
            return tuple(sorted(made, key=lambda it: (it.k, it.at)))
        if table.has(Apart, Persons):
            return self._rows_apart(work, table, as_of)
        is_by_label = table.mode in BY_LABEL and not table.is_snapshot
        label = "timelabel" if is_by_label else "''"
        rows = query(work, f"SELECT {label}, k, v, at, {gone}, {old} FROM {table.name}", limit=10_000, as_of=as_of).rows
        if not is_by_label:
            return tuple(sorted(Row(self._key(k), v, self._minute(at), *more) for _, k, v, at, *more in rows))
        by_label: dict[int, list[Row]] = {}
        for label, k, v, at, *more in rows:
            by_label.setdefault(self.labels[label], []).append(Row(self._key(k), v, self._minute(at), *more))
        return {label: tuple(sorted(each)) for label, each in by_label.items()}

    def _rows_apart(self, work: Any, table: Declared, as_of: RequestedTick | None) -> dict[int, Rows]:
        """Return the rows of a table with APART, with persons identified by pseudonyms, or those of its persons."""
        by_label: dict[int, list[Row]] = {}
        if work.ledger.reads.newest(table.name) is None:
            return {}  # the types of the columns that APART adds are known only after a batch is made
        if table.has(Persons):
            rows = query(work, f"SELECT timelabel, k, w FROM {table.name}", limit=10_000, as_of=as_of).rows
            for label, k, w in rows:
                assert w == f"m{k}"
                by_label.setdefault(self.labels[label], []).append(Row(self._key(k), 0, 0))
        else:
            self.vault.look()
            texts = [*PERSONS, *self.vault.persons]
            known = {hashed(text, SECRET): self._key(text) for text in texts}
            sql = f"SELECT timelabel, person_pseudonym, v, at FROM {table.name}"
            for label, person, v, at in query(work, sql, limit=10_000, as_of=as_of).rows:
                by_label.setdefault(self.labels[label], []).append(Row(known[person], v, self._minute(at)))
        return {label: tuple(sorted(each)) for label, each in by_label.items()}

    def joined(self, name: str) -> dict[int, Rows]:
        """Return the rows of the view that joins a table with APART with its persons; a missing person has key 0."""
        by_label: dict[int, list[Row]] = {}
        with self.tiny.opened() as work:
            found = query(work, f"SELECT timelabel, k, v, at, w FROM {name}_whole", limit=10_000)
        for label, k, v, at, w in found.rows:
            assert w == (None if k is None else f"m{k}")
            by_label.setdefault(self.labels[label], []).append(Row(self._key(k or 0), v, self._minute(at)))
        return {label: tuple(sorted(each)) for label, each in by_label.items()}

    def _closed(self, work: Any, name: str) -> dict[int, Closed]:
        """Return where the books of a table's windows were closed."""
        return {
            self.labels[label_of(label)]: Closed(
                self.number(it.tick), self.number(it.first or it.tick), is_partial=it.reason == AT_LAST
            )
            for label, it in work.ledger.reads.closings(name).items()
            if it.tick is not None
        }

    def number(self, at: datetime) -> int:
        """Return the day that begins at an instant."""
        return self.labels[label_of(at)]

    def close(self, name: str, label: int, today: int) -> int:
        """Close the books of a window by hand, as `waterclock close` does; return the boundary."""
        where = f"{name}@{label_of(self.moment(label))}"
        close_window(self.tiny.root, None, where, "gone", self.moment(today).isoformat(), is_json=False)
        with self.tiny.ledger() as ledger:
            tick = ledger.reads.closings(name)[self.moment(label)].tick
            assert tick is not None
            return self.number(tick)

    def damage(self, name: str, label: int) -> None:
        """Damage the file of a label."""
        at = self.moment(label)
        with self.tiny.opened() as work:
            folder = work.folder(work.flow.tables[name])
            for piece in work.ledger.reads.slices(name, BEGINNING, FOREVER):
                if piece.label == at:
                    for file in read_manifest(folder, piece.slice_path).files:
                        Path(folder, file.path).write_bytes(b"PAR1")

    def give_up(self, name: str, label: int, today: int) -> None:
        """Skip a label whose file is damaged, as `waterclock skip` does for unreadable batches."""
        where = (f"{name}@{label_of(self.moment(label))}", "")
        skip_batches(self.tiny.root, None, where, "a disk", self.moment(today).isoformat(), yes=True, is_json=False)

    def late(self, name: str) -> dict[int, list[tuple[Row, str]]]:
        """Return the rows of each done slice that were too late for their windows, or too early."""
        with self.tiny.opened() as work:
            found: dict[int, list[tuple[Row, str]]] = {}
            for row in work.ledger.past.rows("batches"):
                if row["table"] == f"{name}_late" and row["status"] == DONE:
                    found[self.labels[row["timelabel"]]] = []
            if not found:
                return {}
            rows = query(work, f"SELECT timelabel, k, v, at, late_reason FROM {name}_late", limit=10_000).rows
            for label, k, v, at, reason in rows:
                found[self.labels[label]].append((Row(self._key(k), v, self._minute(at)), reason))
            return {label: sorted(each) for label, each in found.items()}

    def kept_from(self, name: str) -> int:
        """Return the first label of a table that RETAIN has kept; 0 if it has dropped none."""
        with self.tiny.opened() as work:
            found = work.ledger.maintenance.drop_boundary(name, by=FOREVER)
            return 0 if found is None else self.labels[label_of(found)]

    def now(self) -> datetime:
        """Return the real time."""
        with self.tiny.ledger() as ledger:
            return ledger.now()

    def tables_with_past(self) -> list[Declared]:
        """Return the tables that can be queried as of each tick."""
        tables = [it for it in self.flow.values() if it.kind != "PUBLISH" and it.mode != "REPLACE"]
        return [it for it in tables if not it.is_snapshot]  # a tick before the first snapshot is refused

    def as_of(self, tick: int, without: Collection[str], known_at: datetime | None = None) -> dict[str, Any]:
        """Query all tables that keep their past as of a tick."""
        with self.tiny.opened() as work:
            moment = RequestedTick(tick=label_of(self.moment(tick)), known_at=known_at)
            tables = [it for it in self.tables_with_past() if it.name not in without]
            return {table.name: self._rows(work, table, moment) for table in tables}

    def state_as_of(self, name: str, tick: int) -> Rows:
        """Query a table that is a state as of a tick."""
        with self.tiny.opened() as work:
            rows: Rows = self._rows(work, self.flow[name], RequestedTick(tick=label_of(self.moment(tick))))
            return rows

    def delivered(self, name: str) -> list[tuple[int, Value]]:
        table, foreign = name.partition(".")[2], "7" if is_masked(self.flow[name].decision) else 7
        with closing(sqlite3.connect(self.tiny.root / "out.sqlite")) as database:
            try:
                found = database.execute(f"SELECT k, v FROM {table}")
                rows = sorted((self._key(key), value) for key, value in found)
            except sqlite3.OperationalError:
                return []
        if self.flow[name].way == "REPLACE WHERE":
            assert rows.count((FOREIGN, foreign)) == 1, f"{name} lost the row of another writer"
            rows.remove((FOREIGN, foreign))
        return rows

    def seen_by(self, user: str, name: str) -> Shown | None:
        """Return the rows that a table shows a user or its owner; None if the table is unknown to the user."""
        with self.tiny.opened() as work:
            person = work.project.access.person(user, SignIn.TOKEN) if user else None
            assert (person is not None) == bool(user)
            try:
                found = query(work, f"SELECT * FROM {name}", limit=10_000, person=person)
            except ProjectErrors as errors:
                if any(each.code != "E213" for each in errors.errors):
                    raise
                return None
        columns = tuple(column for column, _ in found.columns)
        place = columns.index("k")
        rows = tuple((*row[:place], self._key(row[place]), *row[place + 1 :]) for row in found.rows)
        return Shown(columns, rows)

    # maintenance and damage

    def maintain(self) -> None:
        """Maintain all tables as if years had passed: all retention times are over."""
        with self.tiny.opened() as work:
            now = work.real_now() + YEARS_LATER
            export_ledger(work.ledger, work.lake.root)
            known = {record.name for record in work.ledger.reads.tables()}
            found = maintain.find_maintenance(work, [name for name in self.flow if name in known], now)
            for each in found:
                maintain.maintain_table(work, each, now)
                assert not each.failed, each.failed

    def erase(self, key: int, tables: Collection[str]) -> None:
        """Erase a person from these tables as `waterclock erase` does; verify that no row of the person remains there.

        Deliveries keep their rows until the next run. Other tables may have the value in a column that is no copy.
        """
        self.vault.look()
        with self.tiny.opened() as work:
            apply_flow(work, work.real_now())
            request = build_request(work, "person", [str(key)])
            result = erase(work, plan_erasure(work, request, continues=False), why="asked")
            export_ledger(work.ledger, work.lake.root)
        wrong = [it for it in result.left if it.place in tables]
        assert not wrong, wrong
        if not result.left:  # while rows remain elsewhere, they are found by the token
            self.vault.erased.add(str(key))
        self.vault.look()

    def export(self) -> None:
        """Write the ledger to the storage."""
        with self.tiny.opened() as work:
            export_ledger(work.ledger, work.lake.root)

    def lose_ledger(self) -> None:
        """Lose the ledger, and rebuild it from the newest export and later commits."""
        wait_for_leases(self.tiny)
        rebuild_ledger(self.tiny.load(), settings=self.tiny.settings, force=True)

    def rebuild(self, name: str) -> None:
        """Rebuild a table from its stage."""
        with self.tiny.opened() as work:
            rebuild_table(work, name, plan_rebuild(work, [name])[name])
            apply_flow(work, work.real_now())

    def log_of(self, name: str) -> Path:
        """Return the folder of a table's Delta log."""
        with self.tiny.opened() as work:
            return Path(work.folder(work.flow.tables[name]), "_delta_log")

    def copy_log(self, name: str) -> bool:
        """Keep a copy of a table's log; return whether there is one."""
        log = self.log_of(name)
        if log.is_dir():
            self.copies[name] = self.tiny.root / f"copy-{len(self.copies)}-{name}"
            shutil.copytree(log, self.copies[name])
        return log.is_dir()

    def put_back(self, name: str) -> None:
        """Restore the kept copy of a log."""
        log = self.log_of(name)
        shutil.rmtree(log)
        shutil.copytree(self.copies.pop(name), log)
