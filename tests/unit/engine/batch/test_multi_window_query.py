"""Windows are distributed to queries by the files that these read, each counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from tests.ledgers import day
from waterclock.engine.batch import multi_window_query
from waterclock.engine.batch.multi_window_query import split_batches
from waterclock.flow.declarations import Read

if TYPE_CHECKING:
    import pytest

READ = Read("raw.sales")


def shares(monkeypatch: pytest.MonkeyPatch, slices: Sequence[Sequence[str]], files: int) -> tuple[list[int], int]:
    """Return the number of windows of each query, and how often a manifest was read."""
    looks: Counter[str] = Counter()

    def read_manifest(_: str, path: str) -> Any:
        looks[path] += 1
        return SimpleNamespace(files=[None] * files)

    monkeypatch.setattr(multi_window_query, "read_manifest", read_manifest)
    work = cast("Any", SimpleNamespace(lake=SimpleNamespace(folder=lambda name: name)))
    batches = cast("Any", [SimpleNamespace(label=day(number)) for number in range(len(slices))])
    pins = {
        day(number): (SimpleNamespace(read=READ, slices=[SimpleNamespace(slice_path=path) for path in paths]),)
        for number, paths in enumerate(slices)
    }
    found = split_batches(work, batches, cast("Any", pins))
    assert [batch.label for share in found for batch in share] == list(pins)
    return [len(share) for share in found], max(looks.values())


YEAR = 366
OWN = [[f"slice {number}"] for number in range(YEAR)]


def test_windows_of_few_files_share_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shares(monkeypatch, OWN, files=1) == ([YEAR], 1)


def test_windows_of_more_files_share_several(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shares(monkeypatch, OWN, files=2) == ([250, 116], 1)
    assert shares(monkeypatch, OWN[:3], files=600) == ([1, 1, 1], 1)


def test_files_that_all_windows_read_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shares(monkeypatch, [["dimension"]] * YEAR, files=600) == ([YEAR], 1)
    growing = [[f"slice {each}" for each in range(number + 1)] for number in range(YEAR)]
    assert shares(monkeypatch, growing, files=1) == ([YEAR], 1)
