"""Backfills of dropped windows are refused, because no run makes these windows."""

from __future__ import annotations

from tests.unit.cli.conftest import NOW, Shop, day
from waterclock.operations.backfilling import missing_labels
from waterclock.operations.project_opening import open_read_only


def test_a_backfill_of_dropped_windows_is_refused(shop: Shop) -> None:
    """Regression: it reported that no batch is missing.

    A request would stay forever, as no window before the drop is made.
    """
    shop.done("web.visits", 18, 19)  # the 17th is missing
    assert "1 batch" in shop.ask("backfill", "web.visits", "2024-11-17").output
    shop.ledger.maintenance.drop_windows("web.visits", day(19), 19, who="ann")
    refused = shop.ask("backfill", "web.visits", "2024-11-17")
    assert refused.exit_code == 1
    assert "E518" in refused.output
    with open_read_only(shop.folder, None, NOW.isoformat()) as at:
        assert missing_labels(at, "web.visits", None) == {}


def test_dropped_windows_that_were_made_refuse_no_backfill_of_readers(shop: Shop) -> None:
    """A shorter RETAIN on raw rows is usual: no dropped window is missing."""
    shop.done("web.visits", 17, 18, 19)
    shop.ledger.maintenance.drop_windows("web.visits", day(18), 17, who="ann")
    with open_read_only(shop.folder, None, NOW.isoformat()) as at:
        assert missing_labels(at, "web.visits", "2024-11-17..2024-11-19") == {}
