"""The page on signing in and roles: its commands print the output shown, in a project with its roles and users."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

from tests import stocks
from tests.docs.console import ROOT, commands_of, failures, session

PAGE = (ROOT / "docs" / "howto" / "sign-in-and-roles.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page_print_its_documented_output(tmp_path: Path) -> None:
    made = stocks.make(tmp_path / "mine")
    made.fill(until=stocks.FIRST + timedelta(days=1))
    settings = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (made.folder / "waterclock.toml").write_text("\n".join([stocks.HEADER, *settings]), encoding="utf-8")
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        assert not failures(commands_of(PAGE), shell)
        accesses = "\n".join(shell.run("waterclock access"))
        assert "create token nightly for anna" in accesses
        assert "revoke token nightly" in accesses
