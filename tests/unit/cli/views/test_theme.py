from __future__ import annotations

import io
import itertools

import pytest
from rich.console import Console
from rich.text import Text

from waterclock.cli.views.theme import (
    LOOKS,
    PALETTES,
    make_console,
    read_background,
    state_character,
    theme,
    wrap_words,
)
from waterclock.operations.display_states import State, state_of, worst
from waterclock.planner.plan import Status


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    ("palette", "ground_colour"),
    [("light", "#ffffff"), ("dark", "#14181d"), ("both", "#ffffff"), ("both", "#14181d"), ("both", "#000000")],
)
def test_every_colour_contrasts_with_its_background(palette: str, ground_colour: str) -> None:
    found = {name: contrast(colour, ground_colour) for name, colour in PALETTES[palette].items()}
    assert min(found.values()) >= 3.0, found


@pytest.mark.parametrize(("palette", "ground_colour"), [("light", "#ffffff"), ("dark", "#14181d"), ("both", "#ffffff")])
def test_quiet_squares_contrast_with_the_background_and_words_contrast_more(palette: str, ground_colour: str) -> None:
    square, word = (theme(palette).styles[name].color for name in ("ok.quiet", LOOKS[State.OK].word))
    assert square is not None
    assert word is not None
    assert contrast(square.name, ground_colour) >= 3.0
    assert contrast(word.name, ground_colour) >= contrast(square.name, ground_colour)


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("short", "short"),
        ("one two three four five six", "one two three\n  four five six"),
        ("  - one two three four", "  - one two\n    three four"),
        ("  window  from one day to another", "  window  from\n          one\n          day to\n          another"),
        ("a_word_that_is_longer_than_a_line", "a_word_that_is_longer_than_a_line"),
        ("one\n\ntwo", "one\n\ntwo"),
    ],
)
def test_long_lines_break_between_words_and_go_on_indented(line: str, broken: str) -> None:
    assert wrap_words(Text(line), 16).plain == broken


def test_styles_stay_with_their_words() -> None:
    text = wrap_words(Text.assemble("one two three ", ("four", "bold"), " five six"), 16)
    (span,) = text.spans
    assert text.plain[span.start : span.end] == "four"


def test_a_terminal_breaks_between_words_and_a_file_not_at_all() -> None:
    said = "one two three four five six"
    found = {}
    for is_terminal in (True, False):
        out = io.StringIO()
        console = make_console(out, width=16)
        console._force_terminal = is_terminal
        console.print(said, soft_wrap=True)
        found[is_terminal] = out.getvalue()
    assert "three\n  four" in found[True]
    assert found[False] == said + "\n"


def test_no_two_states_share_a_glyph_or_a_plain_sign() -> None:
    assert len({look.glyph for look in LOOKS.values()}) == len(State)
    assert len({look.plain for look in LOOKS.values()}) == len(State)
    assert all(look.plain.isascii() and len(look.plain) == 1 for look in LOOKS.values())


def test_every_planner_status_has_a_style() -> None:
    assert {state_of(status) for status in Status} <= set(LOOKS)


@pytest.mark.parametrize(("loud", "quiet"), list(itertools.pairwise(LOOKS)))
def test_of_several_states_the_loudest_is_shown(loud: State, quiet: State) -> None:
    assert worst([quiet, loud, quiet]) is loud


def test_a_stream_without_unicode_gets_plain_signs() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert state_character(State.FAILED, make_console(stream)) == "X"


def test_no_color_leaves_words_and_glyphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, theme=None)
    with_theme = make_console(out)
    assert console.no_color
    assert with_theme.no_color
    with_theme.print(Text(f"{state_character(State.BLOCKED, with_theme)} blocked", style=LOOKS[State.BLOCKED].word))
    assert "[38" not in out.getvalue()
    assert "┃ blocked" in out.getvalue()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"WATERCLOCK_THEME": "light"}, "light"),
        ({"WATERCLOCK_THEME": "Dark"}, "dark"),
        ({"COLORFGBG": "0;15"}, "light"),
        ({"COLORFGBG": "15;0"}, "dark"),
        ({"COLORFGBG": "15;default"}, "both"),
        ({}, "both"),
    ],
)
def test_the_background_is_read_from_the_theme_variable_or_the_terminal(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WATERCLOCK_THEME", "COLORFGBG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert read_background() == expected


def test_a_file_is_as_wide_as_columns_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert make_console(io.StringIO()).width == 120
    monkeypatch.setenv("COLUMNS", "72")
    assert make_console(io.StringIO()).width == 72
    monkeypatch.setenv("COLUMNS", "0")  # regression: a terminal of unknown size, where all text was cut off
    assert make_console(io.StringIO()).width == 120


def test_a_line_to_a_file_does_not_ask_again_how_wide_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    to = make_console(io.StringIO())
    monkeypatch.setattr(Console, "is_dumb_terminal", property(lambda _: pytest.fail("the environment was read")))
    to.print(Text("a line"), soft_wrap=True)
