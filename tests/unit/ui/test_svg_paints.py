"""A saved drawing looks as on the page: its colours are those of the style sheet's light theme."""

from __future__ import annotations

import re
from importlib.resources import files

from waterclock.ui.svg_paints import PAINTS

SHEET = files("waterclock.ui").joinpath("static", "ui.css").read_text(encoding="utf-8")
TOKENS = dict(re.findall(r"--([\w-]+): ([^;]+);", SHEET.partition("@media")[0]))
RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")


def light(value: str) -> str:
    """Return the colour of a style sheet's value in the light theme."""
    value = re.sub(r"var\(--([\w-]+)\)", lambda found: light(TOKENS[found[1]]), value.strip())
    value = re.sub(r"light-dark\(([^,]+),[^)]*\)", r"\1", value)
    if mixed := re.fullmatch(r"color-mix\(in srgb, (#\w+) (\d+)%, (#\w+)\)", value):
        one, part, other = numbers(mixed[1]), int(mixed[2]) / 100, numbers(mixed[3])
        value = "#" + "".join(f"{round(a * part + b * (1 - part)):02x}" for a, b in zip(one, other, strict=True))
    return {"transparent": "none"}.get(value, value)


def numbers(colour: str) -> list[int]:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * each for each in colour[1:])
    return [int(digits[at : at + 2], 16) for at in (0, 2, 4)]


def in_the_sheet() -> dict[tuple[str, str], str]:
    """Return the colours of a drawing's parts by class and property."""
    found = {}
    for selectors, body in RULE.findall(SHEET):
        for selector in selectors.split(","):
            if re.fullmatch(r"\s*(\.node )?(\.small|\.graph)?[ ]?\.[\w-]+\s*", selector):
                name = selector.strip().rpartition(".")[2]
                for key, value in re.findall(r"\b(fill|stroke): ([^;]+)", body):
                    found[name, key] = light(value)
    return found


def test_each_paint_is_that_of_the_sheet() -> None:
    sheet = in_the_sheet()
    seen = 0
    for name, paint in PAINTS.items():
        for key in {"fill", "stroke"} & paint.keys() & {key for of, key in sheet if of == name}:
            same = paint[key] if paint[key] == "none" else numbers(paint[key])
            told = sheet[name, key] if sheet[name, key] == "none" else numbers(sheet[name, key])
            assert (name, key, same) == (name, key, told)
            seen += 1
    assert seen >= 30


def test_each_state_that_the_sheet_marks_is_marked_in_a_file() -> None:
    marked = {name for name, _ in in_the_sheet() if name.startswith(("is-", "fill-", "mark-", "glyph-", "box-"))}
    assert {name for name in marked if name not in PAINTS} == set()
