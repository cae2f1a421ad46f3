from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledgers import Clock, Desk, desk, table
from waterclock.engine import ledger_export
from waterclock.engine.ledger_export import chain_of, export_ledger, list_exports
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.storage.ledger_exports import export_names, read_export


@pytest.fixture
def opened() -> Iterator[Desk]:
    at_desk = desk()
    at_desk.apply(table("a.rows", partitioned=True))
    yield at_desk
    at_desk.ledger.close()


def live(at_desk: Desk, label: int) -> None:
    at_desk.clock.pass_by(hours=1)
    at_desk.done("a.rows", label)


def again(root: Path, name: str) -> list[str]:
    ledger = Ledger.open("sqlite://")
    with ledger:
        ledger.maintenance.load(read_export(str(root), each) for each in chain_of(str(root), name))
        return [row["timelabel"] for row in ledger.past.rows("batches")]


def test_each_export_follows_the_one_before_and_the_chain_is_the_ledger(opened: Desk, tmp_path: Path) -> None:
    names: list[str] = []
    for label in range(4):
        live(opened, label)
        found = export_ledger(opened.ledger, str(tmp_path))
        assert found.follows == (names[-1] if names else None)
        names.append(str(found.name))
    assert chain_of(str(tmp_path), names[-1]) == names[::-1]
    assert len(again(tmp_path, names[-1])) == 4
    assert len(again(tmp_path, names[1])) == 2


def test_nothing_new_is_no_export(opened: Desk, tmp_path: Path) -> None:
    assert export_ledger(opened.ledger, str(tmp_path)).name
    assert export_ledger(opened.ledger, str(tmp_path)).name is None
    opened.clock.pass_by(hours=1)
    assert export_ledger(opened.ledger, str(tmp_path), is_whole=True).follows is None
    assert len(list_exports(str(tmp_path))) == 2


def test_a_chain_ends_and_chains_before_the_last_two_go(
    opened: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_export, "MOST_IN_CHAIN", 3)
    for label in range(11):
        live(opened, label)
        export_ledger(opened.ledger, str(tmp_path))
    known = list_exports(str(tmp_path))
    assert [head.follows is None for _, head in known] == [False, True, False, False, True]
    assert len(again(tmp_path, known[0][0])) == 11


def test_the_newest_export_is_the_one_written_last_although_the_clock_was_set_back(
    opened: Desk, tmp_path: Path
) -> None:
    opened.clock.pass_by(days=900)
    for label in range(2):
        live(opened, label)
        export_ledger(opened.ledger, str(tmp_path), is_whole=True)
    opened.clock.pass_by(days=-800)
    for label in range(2, 5):
        live(opened, label)
        newest = export_ledger(opened.ledger, str(tmp_path), is_whole=True)
        assert list_exports(str(tmp_path))[0][0] == newest.name
    assert len(list_exports(str(tmp_path))) == 2
    assert len(again(tmp_path, str(newest.name))) == 5
    live(opened, 5)
    assert export_ledger(opened.ledger, str(tmp_path)).follows == newest.name


def test_after_a_damaged_export_the_next_one_is_whole(opened: Desk, tmp_path: Path) -> None:
    live(opened, 1)
    first = export_ledger(opened.ledger, str(tmp_path))
    live(opened, 2)
    second = export_ledger(opened.ledger, str(tmp_path))
    (tmp_path / "ledger" / str(first.name)).write_bytes(b"no export")
    with pytest.raises(WaterclockError, match="cannot be used") as refused:
        chain_of(str(tmp_path), str(second.name))
    assert refused.value.code == "E418"
    live(opened, 3)
    third = export_ledger(opened.ledger, str(tmp_path))
    assert third.follows is None
    assert len(again(tmp_path, str(third.name))) == 3


def test_an_export_that_was_cut_off_is_noticed(opened: Desk, tmp_path: Path) -> None:
    live(opened, 1)
    found = export_ledger(opened.ledger, str(tmp_path))
    path = tmp_path / "ledger" / str(found.name)
    with gzip.open(path, "rt") as file:
        lines = file.readlines()
    with gzip.open(path, "wt") as file:
        file.writelines(lines[:-4])
    with pytest.raises(WaterclockError, match="cut off"):
        again(tmp_path, str(found.name))


def test_another_ledger_does_not_follow_the_exports_of_the_first(opened: Desk, tmp_path: Path) -> None:
    live(opened, 1)
    export_ledger(opened.ledger, str(tmp_path))
    clock = Clock()
    clock.pass_by(days=3)
    with Ledger.open("sqlite://", clock=clock) as ledger:
        ledger.past.begin_run(who="ann", command="run", now=clock.at)
        assert export_ledger(ledger, str(tmp_path)).follows is None


def test_a_file_that_is_there_is_never_written_over(opened: Desk, tmp_path: Path) -> None:
    live(opened, 1)
    found = export_ledger(opened.ledger, str(tmp_path))
    before = (tmp_path / "ledger" / str(found.name)).read_bytes()
    export_ledger(opened.ledger, str(tmp_path), is_whole=True)  # at the same instant of the same ledger
    assert (tmp_path / "ledger" / str(found.name)).read_bytes() == before
    assert export_names(str(tmp_path)) == [found.name]
