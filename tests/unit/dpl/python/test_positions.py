from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from waterclock.dpl.python.positions import ComputedText, FileText, PythonText
from waterclock.dpl.python.statements import load_python
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.flow.declarations import Place

CALL = "wc.collect('raw.a', from_='ops.a', every={text})"


def where(root: Path, text: str, before: str = "import waterclock as wc\n", encoding: str = "utf-8") -> tuple[str, str]:
    """Return the position and the excerpt of the only error in a file."""
    (root / "a.py").write_bytes((before + text + "\n").encode(encoding))
    _, [error] = load_python(root / "a.py", root=root, variables={})
    return error.where or "", error.excerpt or ""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("'15 days'", "a.py:2:43"),
        ("u'15 days'", "a.py:2:44"),
        ("r'15 days'", "a.py:2:44"),
        ("'''15 days'''", "a.py:2:45"),
        ('"""\n  15 days"""', "a.py:3:3"),
    ],
)
def test_an_error_in_a_plain_literal_is_shown_at_its_position(text: str, place: str, tmp_path: Path) -> None:
    found, excerpt = where(tmp_path, CALL.format(text=text))
    assert found == place
    line, carets = (part.partition(" | ")[2] for part in excerpt.split("\n"))
    assert line[carets.index("^") :].startswith("15 days")
    assert carets.count("^") == len("15 days")


@pytest.mark.parametrize("text", ["'15 ' 'days'", "'15\\x20days'", "'15 ' + 'days'", "f'{15} days'", "TEXT"])
def test_a_text_that_python_makes_is_shown_by_itself(text: str, tmp_path: Path) -> None:
    before = "import waterclock as wc; TEXT = '15 days'\n"
    assert where(tmp_path, CALL.format(text=text), before) == (
        "a.py:2:42",
        "every | 15 days\n      | ^^^^^^^",
    )


def test_letters_of_more_than_a_byte_and_tabs_and_other_line_ends_move_nothing(tmp_path: Path) -> None:
    text = "wc.collect('raw.a', comment='é😀',\r\n\tevery='15 days')"
    assert where(tmp_path, text.replace("\r\n\t", " "))[0] == "a.py:2:42"
    assert where(tmp_path, text, "import waterclock as wc\r\n") == (
        "a.py:3:9",
        "3 |  every='15 days')\n  |         ^^^^^^^",
    )
    assert where(tmp_path, text, encoding="utf-8-sig")[0] == "a.py:3:9"
    latin = "# -*- coding: latin-1 -*-\nimport waterclock as wc\n"
    assert where(tmp_path, text.replace("😀", ""), latin, "latin-1")[0] == "a.py:4:9"


def test_nested_calls_are_distinguished_in_positions(tmp_path: Path) -> None:
    text = "def same(a): return a\nsame(same(wc).view)(same('v.v'), as_=same('SELECT 1 AS a'), comment=same(1))"
    line = "3 | " + text.partition("\n")[2]
    assert where(tmp_path, text) == ("a.py:3:61", f"{line}\n  | {' ' * 60}{'^' * len('comment=same(1)')}")


def test_without_columns_in_the_code_the_line_is_known(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import waterclock as wc\nwc.collect('raw.a', every='15 days')\n")
    code = (
        "from pathlib import Path\nfrom waterclock.dpl.python.statements import load_python\n"
        f"root = Path({str(tmp_path)!r})\nprint(load_python(root / 'a.py', root=root, variables={{}})[1][0].where)"
    )
    done = subprocess.run(
        [sys.executable, "-X", "no_debug_ranges", "-c", code], capture_output=True, check=True, text=True
    )
    assert done.stdout == "a.py:2:1\n"


def test_places_lead_back_to_offsets() -> None:
    whole = SourceText("a.py", "x = 'SELECT 1\n  FROM t'\n")
    text = PythonText("a.py", whole.text)
    inside = FileText("a.py", "SELECT 1", whole=text.source, base=5)
    assert inside.place(7) == Place("a.py", 1, 13)
    assert [inside.offset(inside.place(at)) for at in range(8)] == list(range(8))
    made = ComputedText("a.py", "SELECT\n 1", 4, 2, name="as_")
    assert (made.place(7), made.offset(Place("a.py", 4, 2))) == (Place("a.py", 4, 2), 0)
    assert made.excerpt(8, 9) == "as_ |  1\n    |  ^"
