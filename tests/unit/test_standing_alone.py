"""The repository is self-contained: every path that it cites exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ELSEWHERE = re.compile(
    r"ARCHITECTURE\b|DESIGN-NOTES|field[- ]notes|\b(LANGUAGE|CAPABILITIES|STYLE|HOUSE|UI)\.md|\bshared/"
    r"|\b(UI|LANGUAGE) (\d|decision)|\(F\d+\)"
)
CITED = re.compile(r"\b(?:docs|src|tests|bench|examples)/[\w/.-]+\.(?:md|py|svg|css|xml|toml|feature|dpl)\b")
PLACES = ("src", "tests", "bench", "bin", "docs", "examples")


def texts() -> Iterator[tuple[Path, str]]:
    files = [file for place in PLACES for file in (ROOT / place).rglob("*") if file.suffix in {".py", ".md", ""}]
    for file in [*files, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "pyproject.toml"]:
        if file.is_file() and file != Path(__file__) and "__pycache__" not in file.parts:
            yield file, file.read_text(encoding="utf-8")


def test_nothing_is_cited_that_is_elsewhere() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if ELSEWHERE.search(line)
    ]
    assert found == []


def test_every_path_cited_in_the_code_exists() -> None:
    lacking = {
        (str(file.relative_to(ROOT)), path)
        for file, text in texts()
        if file.is_relative_to(ROOT / "src")
        for path in CITED.findall(text)
        if not (ROOT / path).exists()
    }
    assert lacking == set()


def test_every_path_cited_in_a_decision_exists() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert len(pages) > 20
    lacking = {
        (page.name, path)
        for page in pages
        for path in CITED.findall(page.read_text(encoding="utf-8"))
        if not (ROOT / path).exists()
    }
    assert lacking == set()
