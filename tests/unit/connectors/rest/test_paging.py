from __future__ import annotations

from typing import Any

import pytest

from waterclock.connectors.rest.option_definitions import Paging
from waterclock.connectors.rest.paging import next_position
from waterclock.connectors.rest.records import Body, NoRecords

_PAGING = Paging("offset", "offset", total=("total",))


def _next(count: int, whole: Any, before: int) -> Any:
    return next_position(_PAGING, {"offset": before}, Body(("{}",) * count, (), whole), before=before, link=None)


def test_an_empty_page_before_the_total_is_no_end() -> None:
    with pytest.raises(NoRecords, match="it has no record after 500 of 1000"):
        _next(0, {"total": 1000}, 500)


@pytest.mark.parametrize("whole", [{"total": 500}, {"total": 400}, {"total": None}, {}, []])
def test_an_empty_page_is_the_end_otherwise(whole: Any) -> None:
    assert _next(0, whole, 500) is None


@pytest.mark.parametrize(("total", "following"), [(20, None), ("20", None), (21, {"offset": 20})])
def test_the_page_that_reaches_the_total_is_the_last(total: Any, following: Any) -> None:
    assert _next(10, {"total": total}, 10) == following


@pytest.mark.parametrize("total", ["1,000", {}])
def test_a_total_that_is_no_number_is_named(total: Any) -> None:
    with pytest.raises(NoRecords, match=r"its total is .*, which is not a number"):
        _next(10, {"total": total}, 10)
