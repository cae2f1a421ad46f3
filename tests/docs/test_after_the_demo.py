"""After `./bin/demo` ran in a checkout, tests and pages use the committed example, without the demo's files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.docs.console import commands_of
from tests.flights import EXAMPLE, committed, put_flights

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "tutorial.md", ROOT / "docs" / "howto" / "specify-by-example.md"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with the example, and with the data and tables of a demo."""
    example = put_flights(tmp_path / "checkout" / "examples" / "flights")
    for left in ("data/put.json", "data/new/faa/flights/some.csv.gz", ".waterclock/ledger.sqlite"):
        (example / left).parent.mkdir(parents=True, exist_ok=True)
        (example / left).write_text("[]", encoding="utf-8")
    return tmp_path / "checkout"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_copies_only_committed_example_files_after_the_demo_ran(
    page: Path, checkout: Path, tmp_path: Path
) -> None:
    copies = [it.text for it in commands_of(page.read_text(encoding="utf-8")) if "examples/flights" in it.text]
    goal = tmp_path / "flights"
    assert copies
    for command in ["mkdir /tmp/flights", *copies]:
        subprocess.run(["bash", "-c", command.replace("/tmp/flights", str(goal))], cwd=checkout, check=True)
    found = {path.relative_to(goal) for path in goal.rglob("*") if path.is_file()}
    assert {Path("waterclock.toml"), Path("flows/collect.dpl"), Path("make_data.py")} <= found
    assert found <= set(committed())


def test_the_copy_patterns_of_tests_cover_every_committed_file() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=EXAMPLE, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("no checkout of git")
    known = {Path(name) for name in listed.stdout.decode().split("\0") if name}
    assert set(committed()) >= known, "COMMITTED lists the patterns of existing files"
