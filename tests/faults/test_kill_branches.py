"""SIGKILL at any step of a branch's creation, run, promotion or deletion: the same command completes it afterwards.

The result equals that of undisturbed commands. A deletion leaves nothing of a killed creation or run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.branches import Branched, contents
from tests.faults.killing import gateway_of
from tests.tiny import day, described, labels
from waterclock.batches.earlier_revisions import PROMOTED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FLOW = """
COLLECT shop.sales PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;
TRANSFORM marts.net PARTITIONED (id KEY, *) AS SELECT id, amount * {factor} AS net FROM shop.sales;
TRANSFORM marts.running (net BIGINT) AS SELECT t.net + p.net AS net
  FROM (SELECT coalesce(sum(net), 0) AS net FROM marts.net) t
  CROSS JOIN (SELECT coalesce(max(net), 0) AS net FROM PREVIOUS(marts.running)) p;
"""
TABLES = ("shop.sales", "marts.net", "marts.running")
NOW, AT = day(3), "2020-01-03"
REPOSITORY = Path(__file__).parents[2]
PATIENCE = 600

CREATE = {name: ("branch", "create", name, "--from", "prod", "--at", AT) for name in ("try", "pr-1")}
RUN = ("run", "--env", "try")
PROMOTE = ("promote", "try", "--now", AT, "--yes")
DELETE = {name: ("branch", "delete", name, "--yes") for name in ("try", "pr-1")}

# points, each for the nth time that it is passed, at which attempts are killed in order
Points = tuple[tuple[str, int], ...]
CREATING: Points = (
    ("text written", 1),
    ("branch recorded", 1),
    ("branch begun", 1),
    ("branch ledger read", 1),
    ("branch ledger copied", 1),
    ("ledger installed", 1),
    ("branch ledger installed", 1),
    ("text written", 2),
    ("branch created", 1),
)
TAKING: Points = tuple((f"branch {step}", 1) for step in 2 * ("files linked", "table mirrored", "table taken"))
BEFORE_COMMIT: Points = tuple((step, 1) for step in ("claimed", "seal", "sealed", "audited", "before_commit"))
DELETING: Points = tuple(
    (f"branch {step}", 1) for step in ("deletion begun", "ledger removed", "contents removed", "file removed")
)


@dataclass
class Stages:
    """A project before its branch exists, and with a branch that was run and promoted."""

    base: Branched
    promoted: Branched


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Stages:
    """Return production with two days and the changed flow in its files, and the result of undisturbed commands."""
    base = Branched(tmp_path_factory.mktemp("base"), spark)
    rows = [(n, n + 1, f"2020-01-{1 + n // 2:02d} 08:00:00") for n in range(4)]
    base.source("sales", "id INTEGER, amount INTEGER, at TEXT", rows)
    base.declare(FLOW.format(factor=1))
    outcome = base.run(NOW)
    assert not outcome.failed, described(outcome)
    base.declare(FLOW.format(factor=10))

    promoted = base.copied(tmp_path_factory.mktemp("undisturbed") / "project")
    promoted.of("try").create(NOW)
    promoted.of("try").make()
    plan, _ = promoted.promote(promoted.of("try"), NOW)
    assert plan.adopted == {name: (day(1), day(2)) for name in TABLES[1:]}
    return Stages(base, promoted)


@pytest.fixture
def made(undisturbed: Stages, tmp_path: Path) -> Branched:
    """Return a project whose branch was run."""
    project = undisturbed.base.copied(tmp_path / "project")
    branch = project.of("try")
    branch.create(NOW)
    branch.make()
    return project


def reached(project: Branched) -> dict[str, Any]:
    """Return the rows and digests of all tables in an environment, and how many claims are open."""
    return {
        "rows": {name: sorted(project.rows(f"SELECT * FROM {name}"), key=repr) for name in TABLES},
        "digests": dict(project.digests()),
        "open claims": project.open_claims(),
    }


@contextmanager
def started(
    project: Branched, words: tuple[str, ...], sent: str, point: str, number: int
) -> Iterator[subprocess.Popen[str]]:
    """Start a command line in a process that sends itself a signal at a point. It does not survive the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.killing_a_branch", sent, point, str(number), *words, "--project",
         str(project.root), "--json"],
        cwd=REPOSITORY, env=os.environ | gateway_of(project.spark), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end of a process, and return its exit code and its output, or else its last error output."""
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out or err


def start(project: Branched, words: tuple[str, ...], point: str = "none", number: int = 1) -> tuple[int, str]:
    """Run a command line, which is killed at the point; return its exit code and its output."""
    with started(project, words, "SIGKILL", point, number) as process:
        return end_of(process)


@contextmanager
def stopped(project: Branched, words: tuple[str, ...], point: str, number: int = 1) -> Iterator[None]:
    """Stop a command line at a point during the block; after that it must succeed."""
    with started(project, words, "SIGSTOP", point, number) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{point} was not passed {number} times"
        yield
        process.send_signal(signal.SIGCONT)
        code, said = end_of(process)
        assert code == 0, said


def promoted_in(project: Branched) -> set[tuple[str, str]]:
    """Return the tables and labels whose adoption from a branch is in the audit trail."""
    with project.ledger() as ledger:
        return {(row["table"], row["timelabel"]) for row in ledger.past.rows("events") if row["kind"] == PROMOTED}


def kill(project: Branched, words: tuple[str, ...], point: str, number: int) -> None:
    """Kill a command at the point."""
    code, said = start(project, words, point, number)
    assert code == -signal.SIGKILL, f"{point} was not passed {number} times: {said}"


def succeed(project: Branched, words: tuple[str, ...]) -> dict[str, Any]:
    """Run a command to its end, and return its answer."""
    code, said = start(project, words)
    assert code == 0, said
    answer: dict[str, Any] = json.loads(said)
    return answer


def error_of(project: Branched, words: tuple[str, ...]) -> dict[str, Any]:
    """Run a command that is refused, and return the error."""
    code, said = start(project, words)
    assert code == 1, said
    error: dict[str, Any] = json.JSONDecoder().raw_decode(said)[0]["error"]
    return error


def kill_in_turn(project: Branched, words: tuple[str, ...], points: Points) -> None:
    """Kill successive attempts of a command."""
    for point, number in points:
        kill(project, words, point, number)


def outside_of_branches(project: Branched) -> dict[str, str]:
    return {name: digest for name, digest in contents(project.root).items() if not name.startswith(".branches")}


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(CREATING[3:6:2], id="two of them"),
        pytest.param(CREATING, id="all", marks=pytest.mark.soak),
    ],
)
def test_a_killed_creation_is_ended_by_the_same_command(undisturbed: Stages, tmp_path: Path, points: Points) -> None:
    project = undisturbed.base.copied(tmp_path / "project")
    before = contents(project.root)
    kill_in_turn(project, CREATE["pr-1"], points)
    if ("branch created", 1) in points:
        assert error_of(project, CREATE["pr-1"])["what"] == "the branch pr-1 exists"
    else:
        assert succeed(project, CREATE["pr-1"])["is_complete"] is True
    assert outside_of_branches(project) == before
    assert project.of("pr-1").digests() == project.digests()
    succeed(project, DELETE["pr-1"])
    assert contents(project.root) == before


@pytest.mark.parametrize(
    ("point", "number"),
    [pytest.param(*it, marks=[] if it[0] == "ledger installed" else pytest.mark.soak) for it in CREATING],
)
def test_nothing_of_a_killed_creation_is_left_by_a_deletion(
    undisturbed: Stages, tmp_path: Path, point: str, number: int
) -> None:
    project = undisturbed.base.copied(tmp_path / "project")
    before = contents(project.root)
    kill(project, CREATE["pr-1"], point, number)
    assert outside_of_branches(project) == before
    if (point, number) == ("text written", 1):
        assert error_of(project, DELETE["pr-1"])["what"] == "there is no branch pr-1"
    else:
        succeed(project, DELETE["pr-1"])
    assert contents(project.root) == before


@pytest.mark.soak
def test_a_killed_creation_of_a_declared_branch_is_ended_by_the_same_command(
    undisturbed: Stages, tmp_path: Path
) -> None:
    project = undisturbed.base.copied(tmp_path / "project")
    before = contents(project.root)
    kill_in_turn(project, CREATE["try"], (("text written", 1), ("branch begun", 1), ("text written", 2)))
    assert succeed(project, CREATE["try"])["is_complete"] is True
    assert project.of("try").digests() == project.digests()
    succeed(project, DELETE["try"])
    assert contents(project.root) == before


@pytest.mark.parametrize(
    "points",
    [
        pytest.param((("branch files linked", 2), ("after_commit", 1)), id="two of them"),
        pytest.param((*TAKING, *BEFORE_COMMIT, ("after_commit", 1)), id="to the commit", marks=pytest.mark.soak),
        pytest.param((("committed", 1), ("recorded", 1)), id="committed, recorded", marks=pytest.mark.soak),
        pytest.param((("done", 1), ("before_commit", 1)), id="done", marks=pytest.mark.soak),
        pytest.param((("sealed", 2),), id="the second table", marks=pytest.mark.soak),
    ],
)
def test_a_killed_run_is_ended_by_the_next_one(undisturbed: Stages, tmp_path: Path, points: Points) -> None:
    project = undisturbed.base.copied(tmp_path / "project")
    before, branch = contents(project.root), project.of("try")
    branch.create(NOW)
    kill_in_turn(project, RUN, points)
    succeed(project, RUN)
    assert reached(branch) == reached(undisturbed.promoted.of("try"))
    assert outside_of_branches(project) == before
    succeed(project, DELETE["try"])
    assert contents(project.root) == before


@pytest.mark.soak
@pytest.mark.parametrize(("point", "number"), [("branch files linked", 2), ("sealed", 1), ("after_commit", 2)])
def test_nothing_of_a_killed_run_is_left_by_a_deletion(
    undisturbed: Stages, tmp_path: Path, point: str, number: int
) -> None:
    project = undisturbed.base.copied(tmp_path / "project")
    before = contents(project.root)
    project.of("try").create(NOW)
    kill(project, RUN, point, number)
    succeed(project, DELETE["try"])
    assert contents(project.root) == before


@pytest.mark.parametrize(
    "points",
    [
        pytest.param((("after_commit", 1),), id="one of them"),
        pytest.param(
            (("promotion requested", 1), *BEFORE_COMMIT, ("after_commit", 1)),
            id="to the commit",
            marks=pytest.mark.soak,
        ),
        pytest.param((("committed", 1), ("recorded", 1)), id="committed, recorded", marks=pytest.mark.soak),
        pytest.param((("done", 1), ("before_commit", 1)), id="done", marks=pytest.mark.soak),
        pytest.param((("sealed", 2), ("after_commit", 1)), id="the second table", marks=pytest.mark.soak),
    ],
)
def test_a_killed_promotion_is_ended_by_the_same_command(undisturbed: Stages, made: Branched, points: Points) -> None:
    before = contents(made.root / ".branches")
    kill_in_turn(made, PROMOTE, points)
    succeed(made, PROMOTE)
    assert contents(made.root / ".branches") == before
    expected = reached(undisturbed.promoted)
    assert reached(made) == expected
    assert (
        promoted_in(made)
        == promoted_in(undisturbed.promoted)
        == {(name, label) for name in TABLES[1:] for label in labels(1, 2)}
    )
    succeed(made, DELETE["try"])
    assert not (made.root / ".branches").exists()
    assert reached(made) == expected, "adopted labels do not need the branch any more"
    assert not [path for path in (made.root / ".prod").rglob("*") if path.is_symlink()]


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(DELETING[1:2], id="one of them"),
        pytest.param(DELETING, id="all", marks=pytest.mark.soak),
    ],
)
def test_a_killed_deletion_is_ended_by_the_same_command(undisturbed: Stages, made: Branched, points: Points) -> None:
    kill_in_turn(made, DELETE["try"], points)
    assert error_of(made, PROMOTE)["code"] == "E470"
    if ("branch file removed", 1) in points:
        assert error_of(made, DELETE["try"])["what"] == "there is no branch try"
    else:
        succeed(made, DELETE["try"])
    assert contents(made.root) == contents(undisturbed.base.root)


def codes_of(project: Branched, *commands: tuple[str, ...]) -> set[str]:
    """Return the error codes of commands that are refused."""
    return {error_of(project, words)["code"] for words in commands}


@pytest.mark.soak  # tests/unit/cli/commands/test_branch.py has a short version
def test_one_process_at_a_time_creates_or_deletes_a_branch(undisturbed: Stages, tmp_path: Path) -> None:
    project = undisturbed.base.copied(tmp_path / "project")
    before = contents(project.root)
    with stopped(project, CREATE["try"], "branch ledger copied"):
        assert codes_of(project, CREATE["try"], DELETE["try"], RUN) == {"E477"}
    with stopped(project, DELETE["try"], "branch ledger removed"):
        assert codes_of(project, CREATE["try"], DELETE["try"], RUN) == {"E477"}
    assert contents(project.root) == before


@pytest.mark.soak
@pytest.mark.parametrize(("point", "number"), [("branch table mirrored", 1), ("claimed", 1), ("after_commit", 2)])
def test_no_branch_is_deleted_or_run_twice_while_it_runs(
    undisturbed: Stages, tmp_path: Path, point: str, number: int
) -> None:
    project = undisturbed.base.copied(tmp_path / "project")
    before, branch = contents(project.root), project.of("try")
    branch.create(NOW)
    with stopped(project, RUN, point, number):
        assert codes_of(project, DELETE["try"], RUN) == {"E477"}
    assert reached(branch) == reached(undisturbed.promoted.of("try"))
    succeed(project, DELETE["try"])
    assert contents(project.root) == before


@pytest.mark.parametrize(
    ("point", "number"),
    [
        ("promotion requested", 1),
        pytest.param("sealed", 1, marks=pytest.mark.soak),
        pytest.param("after_commit", 1, marks=pytest.mark.soak),
        pytest.param("recorded", 1, marks=pytest.mark.soak),
    ],
)
def test_production_runs_while_a_branch_is_promoted(
    undisturbed: Stages, made: Branched, point: str, number: int
) -> None:
    with stopped(made, PROMOTE, point, number):
        outcome = made.run(NOW)
        assert not outcome.failed, described(outcome)
    assert reached(made) == reached(undisturbed.promoted)


@pytest.mark.soak
@pytest.mark.parametrize("point", ["promotion requested", "claimed"])
def test_two_promotions_at_once_make_the_same_labels(undisturbed: Stages, made: Branched, point: str) -> None:
    """The second one plans while the first one is at the point, and makes its labels after the first one has ended."""
    with stopped(made, PROMOTE, "promotion requested"), stopped(made, PROMOTE, point):
        pass
    assert reached(made) == reached(undisturbed.promoted)
    assert not succeed(made, PROMOTE)["adopted"]


@pytest.mark.soak
def test_a_branch_that_is_deleted_during_its_promotion_is_computed(undisturbed: Stages, made: Branched) -> None:
    with stopped(made, PROMOTE, "promotion requested"):
        succeed(made, DELETE["try"])
        assert not (made.root / ".branches").exists()
    assert reached(made) == reached(undisturbed.promoted)
