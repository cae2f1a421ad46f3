"""Shared setup of all tests: how hypothesis repeats examples, and which worker runs tests that need a JVM."""

from __future__ import annotations

import gc
import os
import subprocess
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.jvms import set_jvms
from tests.made_once import build_commands_once, migrate_once
from tests.soaks import SOAKS, soak_number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


EXAMPLES = 30  # of a property, every day; the soak tries ten times as many
HERE = Path(__file__).parent
SUITES = HERE.parent / "src" / "waterclock" / "testing"
DURATIONS = HERE / "durations.txt"
COSTLY = HERE / "costly.txt"
TOGETHER = (
    "tests/e2e/ui/",  # no JVM, one Chromium
    "tests/e2e/",
    "tests/faults/",
    "tests/integration/connectors/kafka/",  # one broker
    "tests/integration/engine/",
    "tests/integration/storage/folds/",
    "tests/integration/temporal/",
    "tests/integration/ui/",  # their shop of sixty days is filled once
)
LONG_SECONDS = 3.0  # a test whose recorded time was longer is run by one of `COMMITS_OF_LONG` commits
COMMITS_OF_LONG = 8
MANY_CASES = 8  # of a test in the soak: each of the `SOAKS` soaks runs a quarter of them
COSTLY_SECONDS = 0.1  # of CPU: bin/check omits unit and language tests whose recorded time was longer
MOST_SKIP_LINES = 5
MOST_SECONDS_OF_A_UNIT_TEST = (
    2.0  # of CPU, including its processes: longer tests are marked slow, and bin/check omits them
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help="write how long each file took to durations.txt")
    parser.addoption("--without-costly", action="store_true", help="leave out the tests of costly.txt")
    parser.addoption("--record-costly", action="store_true", help="write which tests need much CPU to costly.txt")


def pytest_configure(config: pytest.Config) -> None:
    set_jvms(compile_queries=is_soak(config))
    set_properties(EXAMPLES * 10 if is_soak(config) else EXAMPLES)
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(), "durations-recorder")
    if config.getoption("--record-costly") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(CpuRecorder(), "cpu-recorder")


def set_properties(examples: int) -> None:
    """Set how many examples hypothesis tries. CI repeats a run exactly; elsewhere each run has new examples."""
    settings.register_profile(
        "waterclock",
        max_examples=examples,
        derandomize=bool(os.environ.get("CI")),
        deadline=None,  # the machine's speed is not a defect
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("waterclock")


def is_soak(config: pytest.Config) -> bool:
    """Return whether this is a run of `bin/soak`."""
    return str(config.getoption("markexpr")).startswith("soak")


class Recorder:
    """Records the duration of each file, with its fixtures, and of each long test without them, for later runs.

    Long tests that do not run keep their earlier record.
    """

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.files[file_of(report.nodeid)] += report.duration  # type: ignore[assignment]  # of float values
        if report.when == "call":
            self.tests[report.nodeid] = report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        for name, seconds in recorded(DURATIONS).items():
            file, is_test, _ = name.partition("::")
            if is_test and name not in self.tests and (HERE.parent / file).exists():
                self.tests[name] = seconds  # type: ignore[assignment]  # of float values
                self.files[file] += seconds  # type: ignore[assignment]
        files = [(file, seconds) for file, seconds in self.files.most_common() if seconds >= 1]
        tests = [(test, seconds) for test, seconds in self.tests.most_common() if seconds >= LONG_SECONDS]
        DURATIONS.write_text(
            "".join(f"{seconds:7.1f} {name}\n" for name, seconds in (*files, *tests)), encoding="utf-8"
        )


class CpuRecorder:
    """Records the tests that need much CPU, with their fixtures. Tests that do not run keep their earlier record."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            seconds = (value for name, value in report.user_properties if name == "cpu")
            self.spent[report.nodeid] = sum(map(float, seconds))  # type: ignore[arg-type]

    def pytest_sessionfinish(self) -> None:
        former = {test: seconds for test, seconds in recorded(COSTLY).items() if (HERE.parent / file_of(test)).exists()}
        costly = {test: seconds for test, seconds in (former | self.spent).items() if seconds > COSTLY_SECONDS}
        lines = (f"{seconds:7.2f} {test}\n" for test, seconds in sorted(costly.items()))
        COSTLY.write_text("".join(lines), encoding="utf-8")


@cache
def recorded(file: Path) -> dict[str, float]:
    """Return the recorded seconds of each file (by its path from the root) and of each test (by its node ID)."""
    if not file.exists():
        return {}
    pairs = (line.split(maxsplit=1) for line in file.read_text(encoding="utf-8").splitlines())
    return {name: float(seconds) for seconds, name in pairs}


def file_of(nodeid: str) -> str:
    """Return the path of the file of a test, from the root."""
    return nodeid.partition("::")[0]


def leave_to_soak(items: Sequence[pytest.Item], commit: int) -> None:
    """Mark all but some cases of the tests that are marked `sampled(n)` as soak, which runs the others as well.

    The test's name determines which n cases it keeps, so that the tests of a file together cover every path. With
    `by_commit=True` the commit's hash determines it, too: the next commit runs other cases.
    """
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    for name, of_test in cases.items():
        sampled = of_test[0].get_closest_marker("sampled")
        if sampled is None:
            continue
        first, kept = zlib.crc32(name.encode()) % len(of_test), sampled.args[0]
        if sampled.kwargs.get("by_commit"):
            first = (first + commit) % len(of_test)
        for place, item in enumerate(sorted(of_test, key=lambda item: item.nodeid)):  # they are in random order
            if (place - first) % len(of_test) >= kept:
                item.add_marker(pytest.mark.soak)


def leave_to_other_soaks(config: pytest.Config, items: list[pytest.Item], number: int) -> None:
    """Deselect three quarters of the cases of tests with many cases in the soak: the `SOAKS` soaks together run all.

    Tests marked `by_commit` choose their cases by the soak's number themselves.
    """
    cases: dict[str, list[str]] = defaultdict(list)
    for item in items:
        is_in_soak = any(item.get_closest_marker(name) is not None for name in ("soak", "sampled"))
        if is_in_soak and not _is_chosen_by_commit(item):
            cases[item.nodeid.partition("[")[0]].append(item.nodeid)
    others: set[str] = set()
    for name, of_test in cases.items():
        if len(of_test) >= MANY_CASES:
            first = (zlib.crc32(name.encode()) + number) % SOAKS
            others |= {*of_test} - {*sorted(of_test)[first::SOAKS]}  # they are in random order
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in others])
    items[:] = [item for item in items if item.nodeid not in others]


def leave_to_other_commits(items: Iterable[pytest.Item], commit: int, *, is_soak: bool) -> None:
    """Mark the long tests that this commit does not run as soak; in a soak all, so that it runs them.

    The commit's hash and the test's name choose one commit of `COMMITS_OF_LONG`, on average. All long tests together
    take longer than all other tests.
    """
    for item in items:
        is_long = recorded(DURATIONS).get(item.nodeid, 0) >= LONG_SECONDS and not _is_chosen_by_commit(item)
        if is_long and (is_soak or (zlib.crc32(item.nodeid.encode()) + commit) % COMMITS_OF_LONG):
            item.add_marker(pytest.mark.soak)


def leave_out_costly(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that need much CPU: a thirteenth of the quick tests, which need two thirds of their CPU."""
    costly = [item for item in items if item.nodeid in recorded(COSTLY)]
    config.hook.pytest_deselected(items=costly)
    items[:] = [item for item in items if item.nodeid not in recorded(COSTLY)]


def _is_chosen_by_commit(item: pytest.Item) -> bool:
    sampled = item.get_closest_marker("sampled")
    return sampled is not None and bool(sampled.kwargs.get("by_commit"))


def commit_number(root: Path) -> int:
    """Return the hash of the checked-out commit as a number; 0 if there is no repository."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    return int(done.stdout, 16)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the longest files first.

    Files that need a JVM come first, by their recorded duration, then the others: two workers that take files in this
    order end at about the same time. The order within a file stays random.
    """
    commit = commit_number(config.rootpath)
    leave_to_soak(items, commit)
    leave_to_other_commits(items, commit, is_soak=is_soak(config))
    if is_soak(config) and (number := soak_number()) is not None:
        leave_to_other_soaks(config, items, number)
    if config.getoption("--without-costly"):
        leave_out_costly(config, items)
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.sampled(EXAMPLES))
    seconds: Counter[str] = Counter()
    for file, of_file in recorded(DURATIONS).items():
        if "::" in file:
            continue
        seconds[given_together(file)] += of_file  # type: ignore[assignment]  # of float values
    with_jvm = {item.path for item in items if item.get_closest_marker("spark")}
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def place(item: pytest.Item) -> tuple[bool, float, bool]:
        return item.path not in with_jvm, -seconds[given_together(item.nodeid)], item.path not in slow

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Exclude the tests and their imports from Python's garbage collection, which took 4 % of all CPU."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the reasons of skipped tests in at most five lines, each with its fix."""
    reasons = Counter(skip_reason(report) for report in terminalreporter.stats.get("skipped", ()))
    for line in skip_lines(reasons):
        terminalreporter.write_line(line, yellow=True)


def skip_reason(report: Any) -> str:
    """Return why a test was skipped, without the source location."""
    if isinstance(report.longrepr, tuple) and Path(report.longrepr[0]).is_relative_to(SUITES):
        return "cases of the suites for connectors that do not apply to a system: nothing is missing"
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(reason).removeprefix("Skipped: ")


def skip_lines(reasons: Mapping[str, int]) -> list[str]:
    """Return at most five lines: the most frequent reasons first, the last line for all remaining ones."""
    ranked = sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    own = ranked if len(ranked) <= MOST_SKIP_LINES else ranked[: MOST_SKIP_LINES - 1]
    lines = [f"skipped {count:5d}: {reason}" for reason, count in own]
    if rest := ranked[len(own) :]:
        lines.append(
            f"skipped {sum(count for _, count in rest):5d}: for {len(rest)} other reasons, which pytest -rs lists"
        )
    return lines


def pytest_unconfigure() -> None:
    gc.unfreeze()  # objects bound to C code report leaks if they outlive Python


def given_together(nodeid: str) -> str:
    """Return the unit that one worker runs: a folder of `TOGETHER`, else the file."""
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), file_of(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Assign all files of a folder with the same use of Spark to one worker, whose JVM is then warmed up for them."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class ByWhatIsAsked(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return given_together(nodeid)

    return ByWhatIsAsked(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    before = cpu_seconds()
    result = yield
    item.user_properties.append(("cpu", cpu_seconds() - before))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    before = cpu_seconds()
    result = yield
    spent = cpu_seconds() - before
    item.user_properties.append(("cpu", spent))
    # CPU is checked only on request: processes that share a core take several times as much
    is_asked = "WATERCLOCK_BOUNDED" in os.environ
    is_daily = not any(map(item.get_closest_marker, ("slow", "spark", "soak")))
    is_quick = item.path.is_relative_to(HERE / "unit") and is_daily
    is_bound = is_asked and is_quick
    if is_bound and not is_soak(item.config) and spent > MOST_SECONDS_OF_A_UNIT_TEST:
        pytest.fail(f"the test took {spent:.1f} s of CPU. Fix: make it faster, or mark it slow")
    return result


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its ended child processes."""
    return sum(os.times()[:4])


@pytest.fixture(scope="session", autouse=True)
def _made_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        build_commands_once(patch)
        migrate_once(patch)
        yield


@pytest.fixture(scope="session")
def is_long(request: pytest.FixtureRequest) -> bool:
    """Whether histories are as long as in the soak; daily ones take fewer steps of each kind."""
    return is_soak(request.config)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return the run's only Spark session, with the engine's settings; `s3.reach` adds each bucket."""
    from waterclock.engine.spark.object_storage import storage_confs
    from waterclock.engine.spark.session import open_session

    confs = {**storage_confs({}), "spark.sql.shuffle.partitions": "1"}
    session = open_session("local[2]", tmp_path_factory.mktemp("spark"), confs, schemes=("s3",))
    yield session
    session.stop()
