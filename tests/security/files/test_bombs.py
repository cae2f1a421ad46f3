"""A small file that needs more memory than Spark has ends only its own batch."""

from __future__ import annotations

import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from tests.ledgers import day
from tests.unit.engine.fakes import collect, group, table, work_of
from tests.unit.engine.test_runner import Planned
from waterclock.connectors.files import scanning
from waterclock.connectors.files.error_positions import explain
from waterclock.connectors.files.file_schemas import shapes_of
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.files.type_errors import REFUSED
from waterclock.connectors.windowing import file_uri_of
from waterclock.engine.batch import failed_attempts, retry
from waterclock.engine.batch.attempt import CommittedGroup, GroupAttempt
from waterclock.engine.batch.batch_errors import batch_error
from waterclock.engine.batch.results import MadeSlices, Notes
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.spark.errors import to_error
from waterclock.errors import WaterclockError, note_inputs, noted_inputs
from waterclock.flow.declarations import Columns
from waterclock.planner.plan import Group


class InTheJvm(Py4JError):  # type: ignore[misc]
    """An exception whose text is in the JVM, as Py4J's are: reading it fails once the JVM has ended."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize("is_gone_at_once", [True, False])
def test_an_error_of_a_jvm_that_has_ended_is_reported(*, is_gone_at_once: bool) -> None:
    """Regression: its text was read from the JVM, so the whole run ended in E999, and so did each later run."""
    looks = iter([is_gone_at_once, True])
    work: Any = SimpleNamespace(sessions=SimpleNamespace(has_ended=lambda: next(looks)))
    error = batch_error(work, collect("raw.bomb"), InTheJvm(), "raw.bomb@20200101000000")
    assert (error.code, error.where, error.transient) == ("E712", "raw.bomb@20200101000000", True)


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (["b.csv.gz", "a.csv.gz", "a.csv.gz"], "it was reading a.csv.gz, b.csv.gz"),
        ([f"{at}.csv.gz" for at in range(9)], "0.csv.gz, 1.csv.gz, 2.csv.gz, 3.csv.gz, 4.csv.gz and 4 more"),
    ],
)
def test_the_end_of_a_jvm_names_the_files_that_the_batch_was_reading(names: list[str], listed: str) -> None:
    raised, full = InTheJvm(), RuntimeError("java.lang.OutOfMemoryError: Java heap space")
    for error in (raised, full):
        note_inputs(error, names)
        note_inputs(error, ["another step"])
    work: Any = SimpleNamespace(sessions=SimpleNamespace(has_ended=lambda: True))
    assert str(batch_error(work, collect("raw.bomb"), raised, "raw.bomb@20200101000000").why).endswith(listed)
    assert str(to_error(full, where="raw.bomb@20200101000000").why).endswith(listed)


@pytest.mark.parametrize("key", ["items", "read"])
def test_an_attempt_notes_the_files_of_its_rows(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    attempt = GroupAttempt(work_of([table("a.b")]), table("a.b"), group("a.b", 1), day(9))
    schema: Any = None
    source: Any = {day(1): {key: [{"name": "a.csv.gz", "size": 9}]}, day(2): {"offsets": [1], key: {"no": "list"}}}
    attempt.made, attempt.done = MadeSlices([], schema, Notes(source)), CommittedGroup(0, 0, ())
    noted: list[str | None] = []

    def note(_: object, __: object, error: BaseException, where: str) -> WaterclockError:
        noted.append(noted_inputs(error))
        return WaterclockError("E712", "Spark's JVM has ended", where=where)

    monkeypatch.setattr(failed_attempts, "batch_error", note)
    failed_attempts.close_failed(attempt, InTheJvm())
    assert noted == ["it was reading a.csv.gz"]


def test_a_scan_records_its_files_if_spark_ends_while_columns_are_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    raised, spark = InTheJvm(), cast("Any", None)

    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(scanning, "_scan_files", fail)
    with pytest.raises(InTheJvm):
        scanning.scan(spark, ["/landing/a.jsonl.gz"], ReadOptions(), Columns(), "UTC")
    assert noted_inputs(raised) == "it was reading a.jsonl.gz"


def test_a_workbook_that_is_a_bomb_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("xl/worksheets/sheet1.xml", b" " * (17 << 20))
    with pytest.raises(WaterclockError) as caught:
        shapes_of([str(path)], ReadOptions(), Columns())
    assert (caught.value.code, caught.value.what, caught.value.where) == ("E882", "a.xlsx is too large", str(path))
    by_worker = explain(RuntimeError(f"{REFUSED}|{file_uri_of(str(path))}|E882|it is|"), ReadOptions(), Columns())
    assert by_worker is not None
    assert (by_worker.code, by_worker.what, by_worker.where) == ("E882", "a.xlsx is too large", str(path))


def test_a_batch_that_ends_the_jvm_again_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: parallel batches were lost with it a second time, and failed as well."""
    names = ["a.bomb", "a.b", "a.c", "a.d"]
    runner = Planned(work_of([table(name) for name in names]), *(group(name, 1) for name in names))
    together, lock = dict[str, threading.Event](), threading.Lock()

    def run_group(_: Any, of: Group, now: Any) -> tuple[GroupReport, ...]:
        del now
        ended = threading.Event()
        with lock:
            together[of.table] = ended
        if of.table == "a.bomb":
            ended.wait(0.2)  # the other batches start
            with lock:
                for each in together.values():
                    each.set()
        is_lost = ended.wait(0.5)
        with lock:
            del together[of.table]
        if is_lost:
            return (GroupReport(of, 1, error=WaterclockError("E712", "Spark's JVM has ended", transient=True)),)
        runner.groups.remove(of)
        return (GroupReport(of, 1),)

    monkeypatch.setattr(retry, "run_group_with_retries", run_group)
    outcome = RunOutcome()
    with ThreadPoolExecutor(4) as threads:
        runner._run_ready_groups(day(9), threads, outcome)
    assert [report.group.table for report in outcome.failed] == ["a.bomb"]
    assert outcome.done == 3
