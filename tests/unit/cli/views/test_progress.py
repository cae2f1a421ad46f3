from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from rich.console import Console
from rich.text import Text

from tests.model.flows import at, collect, transform
from tests.terminals import terminal
from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.cli.views.json_log import JsonLog
from waterclock.cli.views.progress import Progress
from waterclock.cli.views.run import place_of, print_outcome, run_json
from waterclock.cli.views.screen import Screen
from waterclock.cli.views.theme import make_console, theme
from waterclock.engine.collect.source_clocks import UnfinishedSource
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.run_outcome import RunOutcome
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.planner.plan import Batch, Cause, Group, Plan, Status
from waterclock.timelabel.window import Window

FLOW = Flow(
    project="x",
    tables={each.name: each for each in (collect("raw.a"), transform("marts.delays", ["raw.a"]))},
    order=("raw.a", "marts.delays"),
)
BROKEN = WaterclockError("E731", "amount is no number", where="flows/a.dpl:3:7", fix="cast it")


def window(label: str) -> Window:
    return Window(at(label), at(label) + timedelta(days=1))


def batch(table: str, label: str, status: Status = Status.READY, **more: object) -> Batch:
    return Batch(table, window(label), status, "due", **more)  # type: ignore[arg-type]


def group(table: str, *labels: str) -> Group:
    return Group(table, tuple(batch(table, label) for label in labels))


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def progress(out: io.StringIO) -> Progress:
    return Progress(FLOW, "UTC", make_console(out))


def test_a_finished_group_is_one_line_with_rows_and_time(progress: Progress, out: io.StringIO) -> None:
    one, some = group("marts.delays", "2013-01-01"), group("raw.a", "2013-01-01", "2013-01-02", "2013-01-03")
    with progress.display():
        for each, rows in ((one, 16), (some, 2526)):
            progress.on_group_start(each)
            progress.on_group_finish(GroupReport(each, 1, rows=rows, seconds=0.82))
    first, second = out.getvalue().splitlines()
    assert first.split() == ["✓", "marts.delays", "2013-01-01", "16", "rows", "0.8", "s"]
    assert "2013-01-01 .. 2013-01-03 (3)" in second
    assert "2\u2009526 rows" in second


@pytest.mark.parametrize(("earlier", "said"), [(1, "1 earlier label"), (2, "2 earlier labels")])
def test_earlier_labels_made_with_a_group_are_reported(
    progress: Progress, out: io.StringIO, earlier: int, said: str
) -> None:
    with progress.display():
        progress.on_group_finish(GroupReport(group("raw.a", "2013-01-04"), 1, rows=111, earlier=earlier))
    assert out.getvalue().splitlines()[1] == f"  with {said}, whose rows had changed at the source"


def test_a_group_is_shown_with_its_error_or_its_warnings(progress: Progress, out: io.StringIO) -> None:
    with progress.display():
        progress.on_group_finish(GroupReport(group("raw.a", "2013-01-01"), 1, error=BROKEN))
        progress.on_group_finish(GroupReport(group("raw.a", "2013-01-02"), 2, warnings=("few_rows: 3 of 10",)))
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("✕ raw.a ")
    assert lines[0].endswith("E731 amount is no number")
    assert lines[2] == "  ▲ few_rows: 3 of 10"


def test_rows_and_times_are_aligned_and_errors_are_cut_to_one_line() -> None:
    out = io.StringIO()
    console = make_console(out, width=80)
    console._force_terminal = True
    progress = Progress(FLOW, "UTC", console)
    long = WaterclockError("E730", "Division by zero. " + "Use try_divide to tolerate that the divisor is 0. " * 3)
    with progress.display():
        for each in (group("raw.a", "2013-01-01"), group("raw.a", "2013-01-01", "2013-01-02", "2013-01-03")):
            progress.on_group_finish(GroupReport(each, 1, rows=7, seconds=0.8))
        progress.on_group_finish(GroupReport(group("raw.a", "2013-01-01"), 1, error=long))
    told = (Text.from_ansi(line).plain for line in out.getvalue().splitlines())
    one, three, failed = (line for line in told if line.strip())
    assert one.index("7 rows") == three.index("7 rows")
    assert len(one) == len(three)
    assert failed.endswith("…")
    assert len(failed) <= 80


def test_stepping_prints_each_date_once_and_only_if_a_group_runs(out: io.StringIO) -> None:
    progress = Progress(FLOW, "America/New_York", make_console(out), is_stepping=True)
    with progress.display():
        progress.tick(at("2013-01-02 12:00"))
        progress.tick(at("2013-01-03 04:00"))
        progress.on_group_start(group("raw.a", "2013-01-02"))
        progress.tick(at("2013-01-03 05:00"))
        progress.on_group_start(group("marts.delays", "2013-01-02"))
        progress.tick(at("2013-01-03 06:00"))
        progress.on_group_start(group("marts.delays", "2013-01-02"))
    assert out.getvalue() == "Wednesday 2 January 2013\nThursday 3 January 2013\n"


def test_a_run_without_stepping_prints_no_date(progress: Progress, out: io.StringIO) -> None:
    with progress.display():
        progress.tick(at("2013-01-02"))
        progress.on_group_start(group("raw.a", "2013-01-02"))
    assert out.getvalue() == ""


def test_on_a_terminal_a_running_group_is_drawn_with_its_step_until_it_is_done() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, height=20, theme=theme("both"), legacy_windows=False)
    progress = Progress(FLOW, "UTC", console)
    progress.on_group_start(group("raw.a", "2013-01-01"))
    progress.step(group("raw.a", "2013-01-01"), "seal")
    with console.capture() as drawn:
        console.print(progress)
    assert "raw.a" in drawn.get()
    assert "seal" in drawn.get()
    progress.on_group_finish(GroupReport(group("raw.a", "2013-01-01"), 1))
    with console.capture() as drawn:
        console.print(progress)
    assert drawn.get() == ""


def test_running_groups_never_use_more_lines_than_the_screen() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=60, height=10, theme=theme("both"))
    progress = Progress(FLOW, "UTC", console)
    for day in range(1, 29):
        progress.on_group_start(group("raw.a", f"2013-01-{day:02d}"))
    with console.capture() as drawn:
        console.print(progress)
    lines = drawn.get().splitlines()
    assert len(lines) <= 9


def test_the_note_on_how_to_exit_is_wrapped_and_not_cut_on_a_narrow_terminal() -> None:
    to = Console(file=io.StringIO(), force_terminal=True, theme=theme("both"), width=44, height=20)
    shown = Progress(FLOW, "UTC", to)
    shown.on_group_start(group("marts.delays", "2013-01-01", "2013-01-02", "2013-01-03"))
    shown.note("stopping: running batches are finished; Ctrl-C again exits at once")
    with to.capture() as drawn:
        to.print(shown)
    lines = [Text.from_ansi(line).plain for line in drawn.get().splitlines()]
    assert " ".join(" ".join(lines).split()).endswith(
        "stopping: running batches are finished; Ctrl-C again exits at once"
    )
    assert all(len(line) <= 44 for line in lines)


def test_concurrent_threads_can_report_progress(progress: Progress, out: io.StringIO) -> None:
    def tell(day: int) -> None:
        each = group("raw.a", f"2013-01-{day:02d}")
        for call in (
            progress.on_group_start,
            lambda g: progress.step(g, "make"),
            lambda g: progress.on_group_finish(GroupReport(g, 1)),
        ):
            call(each)

    threads = [threading.Thread(target=tell, args=(day,)) for day in range(1, 25)]
    with progress.display():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(out.getvalue().splitlines()) == 24


# threads that are switched every microsecond and report while the terminal is drawn
BUSY = """
import sys, threading
from tests.unit.cli.views.test_progress import FLOW, GroupReport, Progress, group
from waterclock.cli.views.theme import console

sys.setswitchinterval(1e-6)
progress = Progress(FLOW, "UTC", console())

def tell(thread):
    for turn in range(60):
        each = group("raw.a", f"20{thread:02d}-01-01")
        progress.on_group_start(each)
        progress.step(each, "make")
        progress.on_message(f"{thread}:{turn}")
        progress.on_group_finish(GroupReport(each, 1, warnings=("few",)))

threads = [threading.Thread(target=tell, args=(number,)) for number in range(13, 21)]
with progress.display():
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""


@pytest.mark.slow
def test_concurrent_progress_on_a_terminal_causes_no_deadlock() -> None:
    with terminal([sys.executable, "-c", BUSY]) as window:
        said = window.ends(timeout=60)
    assert window.process.returncode == 0, said
    for thread in range(13, 21):
        assert f"{thread}:59" in said
    assert said.count("few") == 8 * 60


class Stopped(io.StringIO):
    """A terminal stopped by Ctrl-S: writes block until it continues."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def write(self, text: str) -> int:
        self.goes_on.wait()
        return super().write(text)


def test_a_stopped_terminal_does_not_block_the_run() -> None:
    stream = Stopped()
    progress = Progress(FLOW, "UTC", make_console(stream))
    with progress.display():
        for day in range(1, 20):
            progress.on_group_start(group("raw.a", f"2013-01-{day:02d}"))
            progress.on_group_finish(GroupReport(group("raw.a", f"2013-01-{day:02d}"), 1))
        assert stream.getvalue() == ""
        stream.goes_on.set()
    assert len(stream.getvalue().splitlines()) == 19


class Gone(io.StringIO):
    """A stream whose reader has disconnected."""

    def write(self, _text: str) -> int:
        raise OSError(5, "Input/output error")


def test_a_line_break_in_a_message_starts_no_line(progress: Progress, out: io.StringIO) -> None:
    with progress.display():
        progress.on_message("raw.a: x\nraw.b  made.csv is skipped")
    assert out.getvalue() == "  raw.a: x\\x0araw.b  made.csv is skipped\n"


def test_a_run_outlives_its_reader() -> None:
    progress = Progress(FLOW, "UTC", make_console(Gone()))
    with progress.display():
        progress.on_group_finish(GroupReport(group("raw.a", "2013-01-01"), 1))
        progress.on_message("more")
    kept = progress._screen._lines.qsize()
    for _ in range(100):
        progress.on_message("more")
    assert progress._screen._lines.qsize() == kept, "no reader takes them off the queue"


class Undrawable:
    """An object whose drawing fails."""

    def __rich_console__(self, *_: object) -> Iterator[Text]:
        raise ValueError("no such colour")


def test_an_error_while_drawing_progress_is_raised() -> None:
    screen = Screen(Console(file=io.StringIO(), force_terminal=True), Undrawable())
    with pytest.raises(ValueError, match="no such colour"), screen.display(is_drawn=True):
        screen.say(Text("more"))


def outcome(**more: object) -> RunOutcome:
    values: dict[str, object] = {"done": 0, "plan": Plan(now=at("2013-01-04"), next_due=at("2013-01-05"))}
    return RunOutcome(**(values | more))  # type: ignore[arg-type]


def told(of: RunOutcome) -> str:
    out = io.StringIO()
    print_outcome(make_console(out), of, FLOW, "UTC", 12.3)
    return out.getvalue()


def test_a_run_with_nothing_due_shows_the_next_due_time() -> None:
    assert told(outcome()) == "nothing is due; next due 2013-01-05 00:00Z\n"


def test_the_summary_shows_completed_and_remaining_batches() -> None:
    plan = Plan(
        now=at("2013-01-04"), batches=(batch("marts.delays", "2013-01-03", Status.WAITING),), left_out={"raw.a": 9}
    )
    line = told(outcome(done=3, rows=1200, plan=plan)).strip()
    assert line == (
        "3 batches done (1\u2009200 rows, 12 s); 10 batches remain (1 waiting, 9 left for later runs); "
        "nothing becomes due"
    )


@pytest.mark.parametrize(
    ("labels", "at_source", "words"),
    [
        ({"2013-01-03": Status.WAITING}, False, "1 batch remains (waiting)"),
        ({"2013-01-01": Status.FAILED, "2013-01-02": Status.FAILED}, False, "2 batches remain (failed)"),
        ({"2013-01-01": Status.READY}, True, "1 batch remains (waiting for its source)"),
        (
            {"2013-01-01": Status.READY, "2013-01-02": Status.READY, "2013-01-03": Status.WAITING},
            True,
            "3 batches remain (2 waiting for their source, 1 waiting)",
        ),
        ({}, False, "nothing is due"),
    ],
)
def test_the_summary_of_a_run_says_what_remains_in_words(
    labels: dict[str, Status], at_source: bool, words: str
) -> None:
    plan = Plan(now=at("2013-01-04"), batches=tuple(batch("raw.a", label, status) for label, status in labels.items()))
    held = UnfinishedSource("raw.a", window("2013-01-01"), at("2013-01-01 21:48"), of_items=True)
    line = told(outcome(done=8, rows=7, plan=plan, held_back=(held,) if at_source else ()))
    assert f"\n8 batches done (7 rows, 12 s); {words}; " in f"\n{line}"


def test_batches_waiting_for_their_source_are_not_counted_as_ready() -> None:
    ready = [batch("raw.a", f"2013-01-0{day}", Status.READY) for day in (1, 2, 3)]
    plan = Plan(now=at("2013-01-04"), batches=(*ready, batch("marts.delays", "2013-01-03", Status.WAITING)))
    held = UnfinishedSource("raw.a", window("2013-01-02"), at("2013-01-01 21:48"), of_items=True)
    assert "4 due: 1 ready, 2 waiting for their source, 1 waiting;" in told(outcome(plan=plan, held_back=(held,)))
    all_held = replace(held, window=window("2013-01-01"))
    assert "4 due: 3 waiting for their source, 1 waiting;" in told(outcome(plan=plan, held_back=(all_held,)))


def blocked(label: str) -> Batch:
    cause = Cause("raw.a", window("2013-01-01"), Status.FAILED, "E731 amount is no number")
    return batch("marts.delays", label, Status.BLOCKED, causes=(cause,))


def test_errors_are_cards_and_blocked_batches_are_counted_by_root_cause() -> None:
    failed = [GroupReport(group("raw.a", "2013-01-01"), 7, error=BROKEN)]
    plan = Plan(now=at("2013-01-04"), batches=tuple(blocked(f"2013-01-0{day}") for day in (1, 2, 3)))
    text = told(outcome(done=1, failed=failed, plan=plan))
    assert BROKEN.render() in text
    assert "┃ 3 batches blocked by raw.a@20130101000000: E731 amount is no number" in text
    assert "1 failed" in text


def test_labels_that_block_for_the_same_reason_share_one_line() -> None:
    said = "E806 visits_2013_01_0{}.csv has a broken row in line 3"
    batches = [
        batch("marts.delays", f"2013-01-0{day}", Status.BLOCKED, causes=(
            Cause("raw.a", window(f"2013-01-0{day}"), Status.FAILED, said.format(day)),
        ))
        for day in (2, 1, 3)
    ]  # fmt: skip
    text = told(outcome(plan=Plan(now=at("2013-01-04"), batches=tuple(batches))))
    assert text.count("blocked by") == 1
    assert f"3 batches blocked by raw.a@20130101000000 and 2 more labels: {said.format(1)}" in text


def test_other_columns_are_other_reasons() -> None:
    errors = [WaterclockError("E805", f"raw.a has no column q_{number}") for number in (1, 2)]
    failed = [GroupReport(group("raw.a", "2013-01-01"), 7, error=error) for error in errors]
    text = told(outcome(failed=failed))
    assert "no column q_1" in text
    assert "no column q_2" in text


def test_where_a_batch_has_failed_the_command_that_makes_it_again_is_named() -> None:
    left = Plan(now=at("2013-01-04"), batches=(batch("raw.a", "2013-01-01", Status.FAILED),))
    assert "`waterclock retry`" in told(outcome(plan=left))
    assert "`waterclock retry`" not in told(outcome(plan=Plan(now=at("2013-01-04"), batches=(blocked("2013-01-01"),))))


def test_an_error_without_a_place_gets_that_of_its_batch() -> None:
    report = GroupReport(group("raw.a", "2013-01-01", "2013-01-02"), 7, error=WaterclockError("E700", "it broke"))
    assert place_of(report) == "raw.a@20130101000000..20130102000000"
    assert "raw.a@20130101000000..20130102000000" in told(outcome(failed=[report]))


def test_an_unsettled_claim_is_shown_like_a_failure() -> None:
    of = outcome(unsettled=(WaterclockError("E821", "claim 7 of out.a cannot be settled yet", fix="make the folder"),))
    assert told(of) == (
        "\nE821 claim 7 of out.a cannot be settled yet\nfix  make the folder\n\n"
        "1 claim not settled; nothing is due; next due 2013-01-05 00:00Z\n"
    )
    found = run_json(of, FLOW, at("2013-01-04"), None, 1.0)
    assert [error["code"] for error in found["unsettled"]] == ["E821"]


def test_an_unreachable_object_store_is_reported_at_the_end_of_the_run() -> None:
    of = outcome(done=1, rows=5, away=WaterclockError("E609", "the object store cannot be reached", where="s3://lake"))
    assert told(of) == (
        "\nE609 the object store cannot be reached\n  s3://lake\n\n"
        "1 batch done (5 rows, 12 s); left by the object store; nothing is due; next due 2013-01-05 00:00Z\n"
    )
    assert run_json(of, FLOW, at("2013-01-04"), None, 1.0)["away"]["code"] == "E609"


def test_a_run_is_json() -> None:
    failed = [GroupReport(group("raw.a", "2013-01-01"), 7, error=BROKEN)]
    found = run_json(outcome(done=2, rows=5, failed=failed), FLOW, at("2013-01-04"), None, 1.23456)
    assert found["failed"][0] == {
        "table": "raw.a",
        "kind": "collect",
        "labels": ["20130101000000"],
        "claim": 7,
        "error": BROKEN.to_dict(),
    }
    assert (found["done"], found["rows"], found["seconds"], found["next_due"]) == (2, 5, 1.235, "2013-01-05T00:00:00Z")


def test_a_claim_of_another_runner_is_noted_once_and_is_no_failure(progress: Progress, out: io.StringIO) -> None:
    one = group("raw.a", "2013-01-01")
    with progress.display():
        progress.on_group_start(one)
        progress.on_group_finish(GroupReport(one, None, error=ClaimRefused("E407", "raw.a is claimed by other-1")))
        progress.on_group_start(one)
        again = ClaimRefused("E407", "raw.a is claimed by other-1")
        progress.on_group_finish(GroupReport(one, None, error=again, is_repeat=True))
    assert out.getvalue().count("raw.a is claimed by other-1") == 1
    assert "E407" not in out.getvalue()


def test_the_same_failure_of_several_labels_is_shown_once(out: io.StringIO) -> None:
    outcome = RunOutcome()
    for day in range(1, 9):
        label = f"2013-01-0{day}"
        error = WaterclockError("E731", f"raw.a@2013010{day}000000 cannot be read", why="it holds no number")
        outcome.failed.append(GroupReport(group("raw.a", label), day, error=error))
    outcome.failed.append(GroupReport(group("marts.delays", "2013-01-01"), 9, error=BROKEN))
    print_outcome(make_console(out), outcome, FLOW, "UTC", 1.0)
    said = out.getvalue()
    assert said.count("it holds no number") == 1
    assert "and the same for raw.a@20130102000000, " in said
    assert "raw.a@20130106000000 and 2 more" in said
    assert "flows/a.dpl:3:7" in said


def test_a_batch_waiting_for_its_source_is_shown_with_the_sources_clock() -> None:
    held = UnfinishedSource("raw.a", window("2013-01-03"), at("2013-01-03 21:48:08"), of_items=True)
    said = told(outcome(held_back=(held,)))
    assert said.splitlines()[0] == (
        "raw.a@20130103000000 waits for the source's clock: newest file 2013-01-03 21:48Z; "
        "the window ends 2013-01-04 00:00Z"
    )
    assert "clock: 2013-01-03 21:48Z;" in told(outcome(held_back=(replace(held, of_items=False),)))
    assert "no file has arrived yet" in told(outcome(held_back=(replace(held, clock=BEGINNING),)))

    told_json = run_json(outcome(held_back=(held,)), FLOW, at("2013-01-04"), None, 1.0)
    assert told_json["held_by_source"] == [
        {
            "table": "raw.a",
            "label": "20130103000000",
            "end": "2013-01-04T00:00:00Z",
            "clock": "2013-01-03T21:48:08Z",
            "awaits": None,
        }
    ]


def test_a_logged_run_keeps_no_state_of_finished_groups(out: io.StringIO) -> None:
    progress = Progress(FLOW, "UTC", make_console(out), log=JsonLog(out))
    for day in range(1, 29):
        of = group("raw.a", f"2013-01-{day:02d}")
        progress.on_group_start(of)
        progress.step(of, "seal")
        progress.on_group_finish(GroupReport(of, day))
    assert progress._running == {}
