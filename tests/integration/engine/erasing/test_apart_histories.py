"""Random requests for one of the two tables of APART, killed at random points, beside changes of query and input.

Each row shows which query made it and from which rows of the source, in a column of the events and in one of the
persons. The view may lack a label, and then names it. It never shows events of one query or input with persons of
another one.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.engine.erasing.test_erasing import Killed, erased, keys, maintain, places_with
from tests.keys import DECLARED
from tests.tiny import Tiny, day, described
from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.cli.actions.rebuild import run_rebuild
from waterclock.cli.actions.reset import reset_table
from waterclock.cli.actions.restate import RestateCommand, restate_batches
from waterclock.cli.actions.revert import commit_reverts
from waterclock.engine.query.query import query
from waterclock.engine.runner_name import runner_name
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.proposals import Verb, decide, propose
from waterclock.operations.restating import done_labels
from waterclock.operations.reverting import RevertRequest, plan_revert
from waterclock.permissions.users_and_roles import owner
from waterclock.planner.reverting import PREVIOUS
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["keys"]  # a fixture of all tests

EVENTS, PERSONS = "web.visits", "web.visits_apart"
ERASED, WHO = 4242420042, (4242420042, 4242420043, None)
POINTS = (
    "claimed", "sealed", "written", "before_commit", "committed", "audited", "recorded", "other_part.requested", "done",
    "reset.paused", "reset.emptied", "reset.recorded", "rebuild.linked", "rebuild.made", "rebuild.recorded",
)  # fmt: skip
VERBS = (
    Verb.RETRY, Verb.RECOMPUTE, Verb.RECOMPUTE, Verb.RELEASE, Verb.BACKFILL, Verb.SKIP, Verb.WITHDRAW, Verb.PAUSE,
    Verb.RESUME, Verb.REPLAY, "revert", "revert", "reset", "rebuild", "one",
)  # fmt: skip
RULES = {
    "page": ("", "EXPECT (page <> '/9') ELSE HOLD", "EXPECT (page NOT LIKE '%bad%') AS good ELSE QUARANTINE"),
    "email": ("", "EXPECT (email IS DISTINCT FROM 'x') ELSE HOLD", "EXPECT (email NOT LIKE '%bad%')"),
}


@dataclass
class History:
    """A project with its random requests."""

    tiny: Tiny
    drawn: random.Random
    query: int = 0
    input: dict[int, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    are_skipped: bool = False
    is_erased: bool = False

    def declare(self, *, has_rules: bool = True) -> None:
        if has_rules and self.drawn.random() < 0.6:
            self.query += 1
        rules = {column: self.drawn.choice(texts) if has_rules else "" for column, texts in RULES.items()}
        self.log.append(f"query {self.query} {rules}")
        self.tiny.declare(f"""{DECLARED}
COLLECT raw.visits PARTITIONED (id BIGINT, buyer BIGINT SUBJECT customer, email STRING, page STRING, at TIMESTAMP)
  FROM shop.visits EVERY DAY BY DATA TIME at;
TRANSFORM web.visits PARTITIONED (id BIGINT KEY, buyer BIGINT SUBJECT customer, email STRING {rules["email"]},
  page STRING {rules["page"]}) APART (email)
AS SELECT id, buyer, concat(email, '#{self.query}') AS email, concat(page, '#{self.query}') AS page FROM raw.visits;
""")

    def write(self, number: int) -> None:
        """Write the source's rows of a day, also again."""
        self.input[number] = self.input.get(number, -1) + 1
        mark = self.drawn.choice(["ok", "ok", "bad"])
        self.tiny.shop(f"DELETE FROM visits WHERE id / 10 = {number}")
        for index, who in enumerate(WHO):
            page = f"{mark}{self.input[number]}"
            email = "NULL" if who is None else f"'{page}'"
            self.tiny.shop(
                f"INSERT INTO visits VALUES ({10 * number + index}, {who or 'NULL'}, {email}, '{page}', "
                f"'2020-01-{number:02d} 10:00:00')"
            )

    def recollect(self, now: int) -> None:
        number = self.drawn.randrange(1, now)
        if label_of(day(number)) not in self.tiny.done("raw.visits"):
            return
        self.write(number)
        self.log.append(f"recollect {number}")
        with self.tiny.ledger() as ledger:
            ledger.decisions.request_restate("raw.visits", [day(number)], "recollect", who="ann")

    def kill(self, what: Any) -> None:
        """Carry out what is given, as a runner that may be killed."""
        point, nth = self.drawn.choice(POINTS), self.drawn.randrange(1, 4)
        passed = 0

        def strike(name: str) -> None:
            nonlocal passed
            passed += name == point
            if name == point and passed == nth:
                self.log.append(f"killed at {point} {nth}")
                raise Killed

        settings = self.tiny.settings
        with subprocess.Popen([sys.executable, "-c", ""]) as ended:
            ended.wait()
        self.tiny.settings = replace(settings, runner=runner_name().replace(f":{os.getpid()}:", f":{ended.pid}:"))
        with suppress(Killed), inject_faults(strike):
            what()
        self.tiny.settings = settings

    def run(self, now: int, **bounds: Any) -> Any:
        return self.tiny.run(day(now), **bounds)

    def request(self, now: int) -> None:
        verb, table = self.drawn.choice(VERBS), self.drawn.choice([EVENTS, PERSONS])
        label = f"2020-01-{self.drawn.randrange(1, now):02d}"
        self.log.append(f"{verb} {table}@{label}")
        try:
            if verb == "revert":
                with open_read_only(self.tiny.root, None, f"2020-01-{now:02d}") as at:
                    plan = plan_revert(at, RevertRequest(f"{table}@{label}", PREVIOUS))
                with self.tiny.opened() as work:
                    commit_reverts(work, plan, "a test", day(now))
            elif verb == "reset":
                reset_table(self.tiny.root, None, table, "a test", yes=True, is_json=True)
                self.are_skipped = False
            elif verb == "rebuild":
                run_rebuild(self.tiny.root, None, [table], yes=True, is_json=True)
            elif verb == "one":
                self.run(now, only=(table,))
            else:
                whole = verb in {Verb.PAUSE, Verb.RESUME, Verb.BACKFILL, Verb.WITHDRAW}
                with open_read_only(self.tiny.root, None, f"2020-01-{now:02d}") as at:
                    proposal = propose(at, verb, table, None if whole else label)
                    if proposal.is_possible:
                        decide(at, proposal, by=owner("ann"), why="a test")
                self.are_skipped |= verb == Verb.SKIP
        except WaterclockError as error:
            self.log.append(f"  {error.code} {error.what}")
            if error.code.startswith("E6"):
                raise

    def erase(self) -> None:
        with self.tiny.opened() as work:
            continues = any(each.finished_at is None for each in work.ledger.erasures.list())
        left = [each.place for each in erased(self.tiny, ERASED, continues=continues).left]
        self.log.append(f"  left {left}")
        places = [each for each in places_with(self.tiny, ERASED) if not each.startswith(tuple(left))]
        assert not places or left, (places, self.log)

    def finish(self, now: int) -> None:
        """Make all labels again by a request for one of the two tables, without rules: the view then has all."""
        table = self.drawn.choice([EVENTS, PERSONS])
        self.log.append(f"finish by {table}")
        self.query += 1
        self.declare(has_rules=False)
        for verb in (Verb.RESUME, Verb.RETRY):
            with open_read_only(self.tiny.root, None, f"2020-01-{now:02d}") as at:
                proposal = propose(at, verb, table, None)
                if proposal.is_possible:
                    decide(at, proposal, by=owner("ann"), why="a test")
        outcome = self.run(now)
        assert not outcome.failed, described(outcome)
        wish = RestateCommand("recompute", RECOMPUTE, table, f"2020-01-01..2020-01-{now - 1:02d}", done_labels)
        restate_batches(self.tiny.root, None, wish, f"2020-01-{now:02d}", yes=True, is_run=False, is_json=True)
        outcome = self.run(now)
        assert not outcome.failed, described(outcome)
        self.check(is_last=True)

    def check(self, *, is_last: bool = False) -> None:
        """Assert that the view shows whole labels of one query and one input, and names all others of the events."""
        with self.tiny.opened() as work:
            answer = query(work, "SELECT id, buyer, email, page, timelabel FROM web.visits_whole", limit=1000)
            events = query(work, "SELECT DISTINCT timelabel FROM web.visits", limit=100)
        rows: dict[str, list[Any]] = {}
        for row in answer.rows:
            rows.setdefault(str(row[4]), []).append(row[:4])
        count = sum(each.labels for each in answer.unpaired)
        story = "\n".join(map(str, [*self.log, rows, answer.unpaired]))
        assert {str(row[0]) for row in events.rows} >= rows.keys(), story
        assert len(events.rows) <= len(rows) + count, story
        for label, of_label in rows.items():
            number = int(label[6:8])
            pages = {page for *_, page in of_label}
            assert len(pages) == 1, story
            assert not (is_last and answer.unpaired), story
            [page] = pages
            mark, _, made_by = page.partition("#")
            assert 0 <= int(made_by) <= self.query, story
            for key, buyer, email, _ in of_label:
                who = WHO[key % 10]
                is_known = buyer == who and email == (None if who is None else page)
                is_missing = buyer is None and email is None
                may_miss = self.are_skipped or (self.is_erased and who == ERASED)
                assert (key // 10 == number and is_known) or (is_missing and may_miss), story
            if is_last:
                assert (int(made_by), int(mark.removeprefix("ok").removeprefix("bad"))) == (
                    self.query, self.input[number],
                ), story  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_random_requests(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    tiny, drawn = Tiny(tmp_path, spark), random.Random(seed)
    tiny.source("visits", "id INT, buyer INT, email TEXT, page TEXT, at TEXT")
    history = History(tiny, drawn)
    history.declare()
    tiny.run(day(1))
    for now in (2, 3, 4):
        history.write(now - 1)
        for _ in range(drawn.randrange(2, 5)):
            action = drawn.random()
            if action < 0.3:
                history.declare()
            elif action < 0.5:
                history.recollect(now)
            if drawn.random() < 0.6:
                act = history.request
            else:
                history.log.append("run")
                act = history.run
            if drawn.random() < 0.4:
                history.kill(lambda act=act, now=now: act(now))
            else:
                act(now)
            history.check()
        if drawn.random() < 0.3:
            maintain(tiny, now)
        if drawn.random() < 0.3:
            history.log.append("erase")
            history.erase()
            history.is_erased = True
            history.check()
    history.finish(4)
