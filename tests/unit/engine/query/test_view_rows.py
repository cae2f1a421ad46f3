"""The fix that a query of open windows proposes if a state is missing."""

from __future__ import annotations

from dataclasses import replace

from tests.ledgers import day, table
from waterclock.engine.query.view_rows import _missing_boundary_error
from waterclock.timelabel.label import label_of


def test_a_missing_skipped_state_is_reported_with_the_retry_and_backfill_to_make_it() -> None:
    error = _missing_boundary_error(replace(table("web.spd_daily"), open_of="web.daily"), day(2))
    which = label_of(day(1))
    assert error.where == f"web.spd_daily@{which}"
    assert f"`waterclock retry web.spd_daily@{which}`, then `waterclock backfill web.spd_daily {which}`" in (
        error.fix or ""
    )
