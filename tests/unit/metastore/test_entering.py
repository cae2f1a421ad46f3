"""Each table is entered once an hour, and a metastore that does not answer is left alone for a minute."""

from __future__ import annotations

import pytest

from waterclock.flow.metastore import Metastore
from waterclock.metastore import entering
from waterclock.metastore.client import CatalogEntry, NotEnteredError
from waterclock.metastore.entering import TableEntries


class Tried:
    """Counts attempts, and lets those of some tables fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entries: list[CatalogEntry] = []
        self.failing: NotEnteredError | None = None
        self.now = 1000.0
        monkeypatch.setattr(entering, "enter_table", self)
        self.tables = TableEntries(Metastore("hive", 9083), "shop", "prod", clock=lambda: self.now)

    def __call__(self, metastore: Metastore, entry: CatalogEntry) -> None:
        assert metastore == Metastore("hive", 9083)
        self.entries.append(entry)
        if self.failing is not None:
            raise self.failing


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Tried:
    return Tried(monkeypatch)


def test_a_table_is_entered_again_after_an_hour_or_at_another_place(tried: Tried) -> None:
    for _ in range(3):
        assert tried.tables.enter("Sales.Daily", "/srv/a b/sales") is None
    assert tried.entries == [CatalogEntry("sales", "daily", "file:/srv/a b/sales", "shop", "prod")]
    tried.tables.enter("Sales.Daily", "s3://lake/sales")
    assert tried.entries[1].location == "s3a://lake/sales"
    tried.now += 3601
    tried.tables.enter("Sales.Daily", "s3://lake/sales")
    assert len(tried.entries) == 3


def test_nothing_is_tried_for_a_minute_after_no_answer(tried: Tried) -> None:
    tried.failing = NotEnteredError("no answer")
    assert tried.tables.enter("a.b", "/a/b") == "no answer"
    assert tried.tables.enter("a.c", "/a/c") is None
    assert len(tried.entries) == 1
    tried.now, tried.failing = tried.now + 61, None
    assert tried.tables.enter("a.b", "/a/b") is None
    assert len(tried.entries) == 2


def test_a_table_that_is_refused_does_not_stop_others(tried: Tried) -> None:
    tried.failing = NotEnteredError("a table of others", is_refused=True)
    assert tried.tables.enter("a.b", "/a/b") == "a table of others"
    assert tried.tables.enter("a.b", "/a/b") is None
    tried.failing = None
    tried.tables.enter("a.c", "/a/c")
    tried.now += 61
    tried.tables.enter("a.b", "/a/b")
    assert [entry.table for entry in tried.entries] == ["b", "c", "b"]
