"""Both forms of the language say the same: whatever DPL accepts, Python says too, and it compiles to equal things."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flights import put_flights
from tests.language.cases import CAPABILITIES, HERE
from tests.language.test_accepted import SETTINGS, put_secret
from tests.language.translating import python_of
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.statements import Statement
from waterclock.flow.declarations import Flow, Value

ACCEPTED = sorted((HERE / "accepted").glob("*.dpl"))
VARIABLES: dict[str, Value] = {"late_minutes": 15, "keep": "400 days", "land": "DE"}


def statements_of(path: Path) -> list[Statement]:
    statements, errors = parse_text(SourceText(path.name, path.read_text(encoding="utf-8")), variables=VARIABLES)
    assert errors == []
    return statements


def flow_of(root: Path, name: str, text: str) -> Flow:
    (root / "flows").mkdir(parents=True)
    (root / "waterclock.toml").write_text(SETTINGS, encoding="utf-8")
    put_secret(root)
    (root / "flows" / name).write_text(text, encoding="utf-8")
    return load_project(root, capabilities=CAPABILITIES).flow


def assert_equal(one: Flow, other: Flow) -> None:
    """Equal in all but places, and the project's own folder; part by part, so that a difference shows."""
    assert one.tables.keys() == other.tables.keys()
    for name, table in one.tables.items():
        assert table == other.tables[name]
    assert one.views == other.views
    assert one.functions == other.functions
    assert {**one.connections, "project": None} == {**other.connections, "project": None}
    assert (one.order, one.fingerprint) == (other.order, other.fingerprint)


@cache
def flow_in_dpl(path: Path) -> Flow:
    with TemporaryDirectory() as folder:
        return flow_of(Path(folder) / "p", path.name, path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.name)
def test_each_accepted_file_has_a_twin_that_is_equal(path: Path, tmp_path: Path) -> None:
    twin = HERE / "twins" / f"{path.stem}.py"
    assert_equal(flow_of(tmp_path / "p", twin.name, twin.read_text(encoding="utf-8")), flow_in_dpl(path))


def spellings(text: str, drawn: int) -> str:
    """Write a text in one of the ways that Python has for it."""
    half = len(text) // 2
    is_plain = "\\" not in text and '"""' not in text and not text.endswith('"')
    ways = [
        repr(text),
        f'"""{text}"""' if is_plain else repr(text),
        f'r"""{text}"""' if is_plain else repr(text),
        f"({text[:half]!r}\n     {text[half:]!r})",
        f"{text[:half]!r} + {text[half:]!r}",
        f"'{{}}'.format({text!r})",
        f'f"{{{text!r}}}"' if not set('"\\') & set(repr(text)) else repr(text),
    ]
    return ways[drawn % len(ways)]


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.name)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_python_in_any_spelling_and_order_compiles_to_the_flow_of_dpl(
    path: Path, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    drawn = random.Random(seed)
    text = python_of(
        statements_of(path),
        spell=lambda value: spellings(value, drawn.randrange(7)),
        order=lambda names: drawn.sample(names, len(names)),
    )
    assert_equal(flow_of(tmp_path_factory.mktemp("python") / "p", "twin.py", text), flow_in_dpl(path))


def test_the_example_in_python_is_the_example(tmp_path: Path) -> None:
    in_dpl, in_python = put_flights(tmp_path / "dpl"), put_flights(tmp_path / "python")
    for path in (in_python / "flows").glob("*.dpl"):
        path.with_suffix(".py").write_text(python_of(statements_of(path)), encoding="utf-8")
        path.unlink()
    flow = load_project(in_python, capabilities=capabilities()).flow
    assert len(flow.tables) > 10
    assert_equal(flow, load_project(in_dpl, capabilities=capabilities()).flow)
