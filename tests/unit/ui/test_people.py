"""The users of a project are those of its project file, which is checked for each request."""

from __future__ import annotations

from pathlib import Path

from tests.counting import calls_named
from waterclock.ui.live_project import LiveProject
from waterclock.ui.people import People

SETTINGS = """[project]
name = "shop"
files = ["flows/**/*.dpl"]
[env.dev]
storage = "storage"
connections.landing = { path = "landing" }
"""
FLOW = """CREATE CONNECTION landing TYPE files;
COLLECT raw.orders (id INT) FROM landing.`orders/*.csv` EVERY DAY START '2026-01-01' BY ARRIVAL TIME APPEND;
"""


def test_the_users_of_a_request_are_found_without_checking_the_flow(tmp_path: Path) -> None:
    (tmp_path / "waterclock.toml").write_text(SETTINGS)
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW)
    people = People(LiveProject(tmp_path))
    assert not people.rules().has_people
    rules, calls = calls_named(people.rules, "stamps_of", "load_project")
    assert (rules.has_people, calls) == (False, 0)
    (tmp_path / "waterclock.toml").write_text(
        SETTINGS + "[users.anna]\nroles = ['viewer']\n[roles]\nviewer = ['look']\n"
    )
    assert people.rules().has_people
    (tmp_path / "flows" / "a.dpl").write_text("COLLECT")
    (tmp_path / "waterclock.toml").write_text(SETTINGS)
    assert not people.rules().has_people, "also while the flow has errors"
