"""TOKENS over Spark Connect: the commands use a server; a person has one token in all tables, until `erase`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from tests.cluster import connect_server
from tests.integration.engine.erasing.test_tokens import ADA, EVA, FLOW, ROWS, fill
from tests.keys import VARIABLES
from tests.tiny import TOML, Tiny
from waterclock.storage.lake import vault_folder
from waterclock.storage.token_vault import find_tokens

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PERSONS = (ADA, EVA, "joe.new")


def rows(tiny: Tiny, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of a table as stored in its files."""
    folder = tiny.root / tiny.storage / "tables" / table.replace(".", "/")
    found = DeltaTable(str(folder)).to_pyarrow_table(columns=list(columns)).to_pylist()
    return sorted((tuple(row[name] for name in columns) for row in found), key=repr)


def test_tokens_over_connect(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with connect_server(tmp_path / "server") as server:
        toml = TOML + server.settings(env="dev")
        tiny = Tiny(tmp_path / "project", cast("Any", None), toml=toml)  # not used: the commands are
        tiny.declare(FLOW.partition("TRANSFORM web.visits")[0] + "TRANSFORM safe" + FLOW.partition("TRANSFORM safe")[2])
        fill(tiny)
        command(tiny, "run", "--now", "2020-01-03")
        vault = vault_folder(str(tiny.root / tiny.storage), "customer")
        tokens = find_tokens(vault, PERSONS)
        assert tokens.keys() == set(PERSONS)
        assert len(set(tokens.values())) == len(PERSONS)
        wanted = [(row[0], tokens.get(row[1] or "")) for row in ROWS]
        assert rows(tiny, "raw.visits", "id", "person") == wanted
        assert {row[0] for row in rows(tiny, "raw.people", "person")} == set(tokens.values())
        assert rows(tiny, "safe.people", "id", "who") == [(row[0], row[1]) for row in ROWS]
        command(tiny, "erase", "customer", ADA, "--because", "on request", "--yes")
        assert find_tokens(vault, PERSONS).keys() == {EVA, "joe.new"}
        tiny.shop(f"INSERT INTO visits VALUES (6, '{ADA}', 'x', '/d', '2020-01-03 10:00:00')")
        tiny.shop(f"INSERT INTO visits VALUES (7, '{EVA}', 'x', '/d', '2020-01-03 11:00:00')")
        command(tiny, "run", "--now", "2020-01-04")
        left = [row for row in wanted if row[1] != tokens[ADA]]
        assert rows(tiny, "raw.visits", "id", "person") == [*left, (7, tokens[EVA])]
        assert find_tokens(vault, PERSONS).keys() == {EVA, "joe.new"}


def command(tiny: Tiny, *words: str) -> None:
    """Run a command of the project."""
    done = subprocess.run(
        [sys.executable, "-m", "waterclock", *words, "--project", str(tiny.root)],
        env=os.environ | VARIABLES,
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
