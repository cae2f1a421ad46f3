"""Pages that are open while tables are renamed (WAS), in the flow's text and by another runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tiny import Tiny, day
from waterclock.ui.live_project import LiveProject

FLOW = "COLLECT {} (id BIGINT KEY) FROM shop.orders EVERY DAY{};"


def applied(tiny: Tiny) -> None:
    with tiny.ledger() as ledger:
        ledger.declared.apply(tiny.load().flow, who="ann", now=day(2), runner="elsewhere")


def test_an_open_page_follows_renames_in_the_text_and_by_a_runner(tmp_path: Path) -> None:
    no_spark: Any = None
    tiny = Tiny(tmp_path, no_spark)
    tiny.source("orders", "id INTEGER")
    tiny.declare(FLOW.format("raw.orders", ""))
    (tmp_path / tiny.storage).mkdir()
    applied(tiny)
    live = LiveProject(tmp_path)
    try:
        assert live.load().renames == {}
        tiny.declare(FLOW.format("sales.orders", " WAS raw.orders"))
        looked = live.load()
        assert looked.renames == {"sales.orders": "raw.orders"}
        applied(tiny)
        looked = live.load()
        assert looked.ledger is not None
        found = looked.ledger.reads.find_table("sales.orders")
        assert found is not None
        assert found.location == "tables/raw/orders"
        assert looked.renames == {}
    finally:
        live.close()
