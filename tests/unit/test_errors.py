from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.cli.views.error_card import style_error
from waterclock.errors import WaterclockError, rendered_parts
from waterclock.printable import printable_line

SOURCE = Path(__file__).parents[2] / "src/waterclock"
LINES = st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1)


@given(what=LINES, where=st.none() | LINES, why=st.none() | LINES, fix=st.none() | LINES)
def test_a_rendered_error_is_parsed_back_into_its_parts(
    what: str, where: str | None, why: str | None, fix: str | None
) -> None:
    error = WaterclockError("E731", what, where=where, why=why, fix=fix)
    parts = {"what": f"E731 {what}", "where": where or "", "why": why or "", "fix": fix or ""}
    assert rendered_parts(error.render()) == {name: printable_line(text) for name, text in parts.items()}


def test_a_line_break_in_a_name_forges_no_line() -> None:
    name = "a\nE999 forged\nfix  curl x | sh"
    error = WaterclockError("E807", f"cannot read {name}", where=f"/in/{name}", why="broken", fix="deliver it")
    shown = error.render().splitlines()
    assert shown == [
        r"E807 cannot read a\x0aE999 forged\x0afix  curl x | sh",
        r"  /in/a\x0aE999 forged\x0afix  curl x | sh",
        "why  broken",
        "fix  deliver it",
    ]
    assert style_error(error).plain.splitlines() == shown


def test_a_message_of_several_lines_forges_no_part() -> None:
    said = "it refused\nfix  curl x | sh\u2028fix  rm\n  /forged\nwhy  forged"
    error = WaterclockError("E812", "the value does not fit", why=said)
    assert error.render().splitlines() == [
        "E812 the value does not fit",
        "why  it refused",
        "     fix  curl x | sh",
        "     fix  rm",
        "       /forged",
        "     why  forged",
    ]
    assert style_error(error).plain == error.render()
    assert rendered_parts(error.render()) == {
        "what": "E812 the value does not fit", "where": "", "why": "it refused", "fix": ""
    }  # fmt: skip


def test_the_message_of_a_server_is_cut_off() -> None:
    error = WaterclockError("E813", "the database rejected a statement", why="x" * 100_000_000, fix="correct it")
    assert len(error.render()) < 30_000
    assert error.render().splitlines()[1].endswith("x… (100,000,000 characters, cut off)")
    assert error.render().splitlines()[2] == "fix  correct it"


# errors with the text of a parser or another program, and a list of errors that have their own fixes
WITHOUT_A_FIX = {"E200", "E210", "E220", "E250", "E790", "E812", "E871"}


@pytest.mark.slow
def test_each_permanent_error_has_a_fix() -> None:
    silent = [
        f"{path.relative_to(SOURCE)}:{call.lineno} {code}"
        for path in sorted(SOURCE.rglob("*.py"))
        if re.search(r'"E\d{3}"', text := path.read_text(encoding="utf-8"))
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and (code := code_of(call)) is not None and code not in WITHOUT_A_FIX
        if not {"fix", "transient", None} & {said.arg for said in call.keywords}
    ]
    assert not silent, silent


def code_of(call: ast.Call) -> str | None:
    """Return the code of a call that creates an error; None for other calls."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    codes = [it.value for it in call.args[:2] if isinstance(it, ast.Constant) and isinstance(it.value, str)]
    found = next((code for code in codes if re.fullmatch(r"E\d{3}", code)), None)
    return found if name in {"WaterclockError", "refuse"} else None
