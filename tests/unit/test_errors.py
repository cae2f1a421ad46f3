from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from waterclock.errors import WaterclockError, rendered_parts

LINES = st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1)


@given(what=LINES, where=st.none() | LINES, why=st.none() | LINES, fix=st.none() | LINES)
def test_what_is_kept_as_text_is_taken_apart_again(
    what: str, where: str | None, why: str | None, fix: str | None
) -> None:
    error = WaterclockError("E731", what, where=where, why=why, fix=fix)
    parts = {"what": f"E731 {what}", "where": where or "", "why": why or "", "fix": fix or ""}
    assert rendered_parts(error.render()) == parts
