"""The pages on master data: their commands print the output that they show, by a clock that follows their --now."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.docs.console import ROOT, Command, commands_of, failures, session
from tests.forms import SetClock
from waterclock.connectors.forms import database

PRICES = """sku;price;valid_from;remark
AB-1000;12,50;2026-11-01;"from the list
of suppliers"
AB-2000;1.200,00;;
"""


def set_clock(clock: SetClock, command: Command) -> None:
    """Set the clock of the forms to the --now of a command; without one, to ten o'clock of that day."""
    found = re.search(r"--now (\S+)", command.text)
    midnight = clock.at.replace(hour=0)
    clock.at = datetime.fromisoformat(f"{found[1]}T00:00:00+00:00") if found else midnight + timedelta(hours=10)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "name", ["edit-a-mapping-table", "replace-a-spreadsheet", "a-classification-queue", "approve-changes"]
)
def test_the_commands_of_the_page_print_its_documented_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    page = (ROOT / "docs" / "howto" / f"{name}.md").read_text(encoding="utf-8")
    clock = SetClock(datetime.fromisoformat("2026-11-16T10:00:00+00:00"))
    monkeypatch.setattr(database, "machine_time", clock)
    monkeypatch.setenv("LOGNAME", "ada")
    folder = tmp_path / "mine"
    (folder / "flows").mkdir(parents=True)
    [toml] = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [flow] = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (folder / "waterclock.toml").write_text(toml, encoding="utf-8")
    (folder / "flows" / "forms.dpl").write_text(flow, encoding="utf-8")
    (folder / "prices.csv").write_text(PRICES, encoding="utf-8")
    (folder / "new.csv").write_text("supplier_sku,class\nS207,finished\nT-1,raw\n", encoding="utf-8")
    wrong = []
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        for command in commands_of(page):
            set_clock(clock, command)
            other = re.match(r"sudo -u (\w+) ", command.text)
            monkeypatch.setenv("LOGNAME", other[1] if other else "ada")
            wrong += failures([replace(command, text=command.text[other.end() :] if other else command.text)], shell)
    assert not wrong, "\n\n".join(wrong)
