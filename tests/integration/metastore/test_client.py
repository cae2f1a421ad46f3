"""Entries in a real metastore: made once, corrected if they are this project's, and left if they are others'."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

import pytest

from tests.metastore import RunningMetastore, metastore
from waterclock.metastore.client import CatalogEntry, NotEnteredError, enter_table


@pytest.fixture
def running() -> RunningMetastore:
    return metastore()


@pytest.fixture
def entry() -> CatalogEntry:
    return CatalogEntry(f"d{uuid4().hex[:8]}", "daily", "file:/srv/a b/ä/daily", "shop", "prod")


def test_an_entry_is_made_once_and_follows_its_table(running: RunningMetastore, entry: CatalogEntry) -> None:
    assert running.table(entry.database, "daily") is None
    for _ in range(2):
        enter_table(running.address, entry)
    found = running.table(entry.database, "daily")
    assert found.sd.serdeInfo.parameters["path"] == entry.location
    assert (found.tableType, found.parameters["spark.sql.sources.provider"]) == ("EXTERNAL_TABLE", "delta")
    made_at = found.createTime
    enter_table(running.address, replace(entry, location="file:/elsewhere/daily"))
    found = running.table(entry.database, "daily")
    assert (found.sd.serdeInfo.parameters["path"], found.sd.location) == (
        "file:/elsewhere/daily",
        "file:/elsewhere/daily",
    )
    assert found.createTime == made_at


def test_an_entry_of_others_is_left(running: RunningMetastore, entry: CatalogEntry) -> None:
    enter_table(running.address, entry)
    elsewhere = replace(entry, location="file:/elsewhere")
    for other in (replace(elsewhere, project="another"), replace(elsewhere, environment="dev")):
        with pytest.raises(
            NotEnteredError, match=r"has a table of project shop with this name, at file:/srv"
        ) as raised:
            enter_table(running.address, other)
        assert raised.value.is_refused
    assert running.table(entry.database, "daily").sd.serdeInfo.parameters["path"] == entry.location
    by_hand = replace(entry, table="by_hand")
    running.create(by_hand, EXTERNAL="TRUE")
    with pytest.raises(NotEnteredError, match="has a table of others"):
        enter_table(running.address, replace(by_hand, location="file:/elsewhere"))
    assert running.table(entry.database, "by_hand").sd.location == by_hand.location


def test_an_entry_by_hand_for_the_same_folder_is_kept(running: RunningMetastore, entry: CatalogEntry) -> None:
    enter_table(running.address, replace(entry, table="first"))
    running.create(entry, EXTERNAL="TRUE", **{"spark.sql.sources.provider": "delta", "mine": "yes"})
    enter_table(running.address, entry)
    assert running.table(entry.database, "daily").parameters["mine"] == "yes"


def test_several_runners_enter_a_table_at_once(running: RunningMetastore, entry: CatalogEntry) -> None:
    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(enter_table, running.address, entry) for _ in range(8)]:
            each.result()
    assert running.table(entry.database, "daily").sd.location == entry.location


def test_a_name_that_a_metastore_cannot_have_is_refused(running: RunningMetastore, entry: CatalogEntry) -> None:
    enter_table(running.address, entry)
    for name in ("a;b", "a b", "ä'`\"", "x" * 129, ""):
        with pytest.raises(NotEnteredError) as raised:
            enter_table(running.address, replace(entry, table=name))
        assert raised.value.is_refused
