"""The cost of checking wide tables and deep queries, counted in calls."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.counting import calls_of
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project

TOML = """\
[project]
name = "wide"
[defaults]
start = "2020-01-01"
[env.dev]
storage = ".waterclock"
connections.shop = { path = "shop.db" }
"""


def loaded(folder: Path, columns: int, query: str) -> Project:
    (folder / "flows").mkdir(parents=True, exist_ok=True)
    (folder / "waterclock.toml").write_text(TOML)
    listed = ", ".join(f"c{at} INT{' HIDDEN' if at % 2 else ''}" for at in range(columns))
    dpl = f"""CREATE CONNECTION shop TYPE sqlite;
    COLLECT raw.t PARTITIONED (id BIGINT, at TIMESTAMP, {listed}) FROM shop.t EVERY DAY BY DATA TIME at;
    TRANSFORM mart.x PARTITIONED AS {query};"""
    (folder / "flows" / "flow.dpl").write_text(dpl)
    return load_project(folder, capabilities=capabilities())


def test_ten_times_the_columns_are_at_most_ten_times_the_work(tmp_path: Path) -> None:
    loaded(tmp_path / "warm", 2, "SELECT *, c1 FROM raw.t")
    calls = [
        calls_of(partial(loaded, tmp_path / str(wide), wide, "SELECT *, c1 FROM raw.t"))[1] for wide in (100, 1_000)
    ]
    assert calls[1] < 10 * calls[0]


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT {' + '.join(['c0'] * 2_000)} AS sum FROM raw.t",
        f"SELECT id FROM raw.t WHERE {' OR '.join(f'c0 = {at}' for at in range(2_000))}",
        " UNION ALL ".join(["SELECT id FROM raw.t"] * 2_000),
    ],
    ids=["sum", "or", "union"],
)
def test_a_query_nested_two_thousand_levels_deep_is_checked(tmp_path: Path, query: str) -> None:
    assert "mart.x" in loaded(tmp_path, 2, query).flow.tables
