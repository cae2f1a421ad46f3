"""The rows of a SHARED view: which table makes them, and when they are removed."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

from waterclock.engine.runner_name import runner_name
from waterclock.engine.shared_rows import FOLDER, SharedRows


def made(folder: str, _: Sequence[str]) -> str:
    Path(folder).mkdir(parents=True)
    return "a schema"


def refused(_: str, __: Sequence[str]) -> str:
    raise OSError(28, "No space left on device")


def test_shared_rows_are_made_once_and_then_reused(tmp_path: Path) -> None:
    rows = SharedRows(str(tmp_path), runner_name())
    found = [rows.find_or_make(["k"], made) for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert (rows.made, rows.used) == (1, 2)


def test_labels_without_shared_rows_are_made_by_a_single_job(tmp_path: Path) -> None:
    rows, jobs = SharedRows(str(tmp_path), runner_name()), []

    def noted(folder: str, keys: Sequence[str]) -> str:
        jobs.append(tuple(keys))
        return made(folder, keys)

    rows.find_or_make(["b"], noted)
    places = rows.find_or_make(["a", "b", "c"], noted)
    assert jobs == [("b",), ("a", "c")]
    assert places is not None
    assert places[0] == places[2] != places[1]
    assert rows.find_or_make(["c", "a"], refused) == (places[2], places[0])


def test_others_wait_for_those_rows_and_for_nothing_else(tmp_path: Path) -> None:
    rows, begun, may_end = SharedRows(str(tmp_path), runner_name()), threading.Event(), threading.Event()

    def slowly(folder: str, keys: Sequence[str]) -> str:
        begun.set()
        assert may_end.wait(10)
        return made(folder, keys)

    first = threading.Thread(target=rows.find_or_make, args=(["slow"], slowly))
    second = threading.Thread(target=rows.find_or_make, args=(["slow"], refused))
    first.start()
    assert begun.wait(10)
    second.start()
    assert rows.find_or_make(["other"], made) is not None  # while the slow ones are made
    may_end.set()
    first.join()
    second.join()
    assert (rows.made, rows.used) == (2, 1)


def test_where_they_cannot_be_made_each_reader_makes_its_own(tmp_path: Path) -> None:
    rows = SharedRows(str(tmp_path), runner_name())
    assert rows.find_or_make(["k"], refused) is None
    assert rows.find_or_make(["k"], made) is None
    assert rows.made == 0


def test_a_run_removes_its_shared_rows_and_those_of_a_killed_local_runner(tmp_path: Path) -> None:
    rows = SharedRows(str(tmp_path), runner_name())
    rows.find_or_make(["k"], made)
    name = runner_name()
    gone = name.replace(f"{socket.gethostname()}:{os.getpid()}:", f"{socket.gethostname()}:4194304:")
    elsewhere = name.replace(socket.gethostname(), "another-machine", 1)
    for runner in (gone, elsewhere):
        assert SharedRows(str(tmp_path), runner).find_or_make(["k"], made)
    rows.clear()
    assert [each.name for each in (tmp_path / FOLDER).iterdir()] == [elsewhere.replace(":", "~")]
    assert rows.find_or_make(["k"], made), "a later lookup makes them again"


def test_nothing_is_there_to_clear_at_first(tmp_path: Path) -> None:
    SharedRows(str(tmp_path / "new"), runner_name()).clear()
    assert not (tmp_path / "new").exists()
