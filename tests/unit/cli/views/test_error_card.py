from __future__ import annotations

import pytest

from waterclock.cli.views.error_card import style_error
from waterclock.errors import WaterclockError

LINE = "AS SELECT c.country, count(*) AS orders, round(sum(o.amount), 2) AS revenue, count_if(o.amount >= :lage) AS l"
AT = LINE.index(":lage")
ERROR = WaterclockError("E214", "unknown variable :lage", excerpt=f"3 | {LINE}\n  | {' ' * AT}^^^^^")


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_line_wider_than_the_terminal_is_cut_around_its_carets(width: int) -> None:
    _, source, carets = style_error(ERROR, width=width).plain.splitlines()
    assert max(len(source), len(carets)) < width
    begin = carets.index("^")
    assert source[begin : begin + 5] == ":lage"
    assert source.startswith("  3 | …")
    assert source.endswith("…") == (not source.endswith("AS l"))


def test_a_caret_of_the_source_is_not_taken_for_one_of_ours() -> None:
    line = f"SELECT a ^ b, {'x' * 60} AS long, misspelt"
    error = WaterclockError("E301", "x", excerpt=f"3 | {line}\n  | {' ' * line.index('misspelt')}^^^^^^^^")
    _, source, carets = style_error(error, width=50).plain.splitlines()
    assert source[carets.index("^") :] == "misspelt"


@pytest.mark.parametrize("width", [None, 200])
def test_a_line_that_fits_is_shown_as_it_is(width: int | None) -> None:
    assert style_error(ERROR, width=width).plain.splitlines()[1:] == [
        f"  {line}" for line in (ERROR.excerpt or "").splitlines()
    ]


def test_carets_at_the_begin_of_a_wide_line_leave_its_begin() -> None:
    early = WaterclockError("E201", "x", excerpt=f"3 | {LINE}\n  | ^^")
    _, source, carets = style_error(early, width=50).plain.splitlines()
    assert (source[:8], carets) == ("  3 | AS", "    | ^^")
    assert source.endswith("…")
