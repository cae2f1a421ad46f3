"""The connector and the tests of docs/howto/write-a-connector.md: installed by an entry point, and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "howto" / "write-a-connector.md").read_text(encoding="utf-8")


def block(first: str) -> str:
    """Return the block of the page that starts with a line."""
    found = re.search(rf"```\w+\n({re.escape(first)}.*?)```", PAGE, re.DOTALL)
    assert found is not None, first
    return found[1]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return the page's package, installed on the path."""
    site = tmp_path / "site"
    (site / "shop_mail").mkdir(parents=True)
    (site / "shop_mail" / "__init__.py").write_text("")
    (site / "shop_mail" / "mbox.py").write_text(block("# shop_mail/mbox.py"))
    said = block('[project.entry-points."waterclock.connectors"]')
    about = site / "shop_mail-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-mail\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        said.replace('[project.entry-points."waterclock.connectors"]', "[waterclock.connectors]").replace('"', "")
    )
    return site


def run(package: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": path, "PYTEST_ADDOPTS": ""},
    )  # fmt: skip


def test_the_connector_of_the_page_passes_the_public_suites(package: Path, tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text(block("# tests/conftest.py"))
    (tests / "test_mbox.py").write_text(block("# tests/test_mbox.py"))
    done = run(package, tmp_path, "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_a_flow_collects_by_it_from_the_command_line(package: Path, tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text('[project]\nname = "shop"\n')
    (tmp_path / "flows/mail.dpl").write_text(block("CREATE CONNECTION mail"))
    (tmp_path / "mail").mkdir()
    (tmp_path / "mail/orders.mbox").write_text(
        "From ann Mon Nov 23 09:00:00 2026\nFrom: ann@shop\nSubject: two pens\nSent: 2026-11-23T09:00Z\n\nplease\n\n"
    )
    done = run(package, tmp_path, "waterclock", "run", "--now", "2026-11-22T01:00Z")
    assert done.returncode == 0, done.stdout + done.stderr
    asked = run(package, tmp_path, "waterclock", "query", "SELECT subject, hour(sent) AS h FROM shop.mail", "--json")
    assert json.loads(asked.stdout)["rows"] == [["two pens", 9]]
