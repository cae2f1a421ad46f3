"""The whole lifecycle of a branch by commands in separate processes; its base is in a bucket and in PostgreSQL."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import postgres, s3
from tests.integration.engine.branching.remote_base import FLOW, SALES, digest_of_production, write_project_file
from tests.tiny import CONNECTIONS
from waterclock.files.filesystem import entry_path, files_below
from waterclock.files.object_stores import register_bucket

# four commands start a JVM each: nine minutes on a busy machine
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
SECONDS = 900  # for one command, on a very busy machine
NOW = "2020-01-03"
BEFORE, AFTER = "amount", "amount * 10"


@dataclass
class Commands:
    """Runs commands of a project in a folder, as a user does."""

    root: Path

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command. Return its output."""
        done = subprocess.run(
            [sys.executable, "-m", "waterclock", *words, "--project", str(self.root)],
            cwd=self.root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS,
            env=os.environ | {"COLUMNS": "100", "TERM": "dumb"},
        )  # fmt: skip
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *words: str, code: int = 0) -> Any:
        """Run a command with --json, and return its output."""
        return json.loads(self.run(*words, "--json", code=code))

    def sell(self, rows: Sequence[tuple[int, int, str]]) -> None:
        """Add rows to the source."""
        with closing(sqlite3.connect(self.root / "shop.sqlite")) as shop, shop:
            shop.execute("CREATE TABLE IF NOT EXISTS sales (id INTEGER, amount INTEGER, at TEXT)")
            shop.executemany("INSERT INTO sales VALUES (?, ?, ?)", rows)

    def declare(self, net: str) -> None:
        """Write the flow, with this expression for `net`."""
        (self.root / "flows" / "flow.dpl").write_text(CONNECTIONS + FLOW.format(net=net))


def test_a_branch_is_created_made_compared_promoted_and_deleted_by_commands(tmp_path: Path) -> None:
    root, server, schema = tmp_path / "shop", postgres.server(), postgres.server().fresh_schema()
    bucket, options = s3.server().new_bucket(), s3.server().options()
    (root / "flows").mkdir(parents=True)
    write_project_file(root, bucket, branch_in_bucket=True)
    secrets = {"ledger": server.ledger_url(schema), "s3_key": options["access_key_id"]}
    (root / "secrets").mkdir()
    for name, value in (secrets | {"s3_secret": options["secret_access_key"]}).items():
        (root / "secrets" / name).write_text(value)
    register_bucket(f"s3://{bucket}", options)
    commands = Commands(root)
    commands.sell(SALES)
    commands.declare(BEFORE)
    commands.run("run", "--now", NOW)
    made = digest_of_production(bucket, schema)

    commands.declare(AFTER)
    commands.run("branch", "create", "try", "--at", NOW)
    plan = commands.json("plan", "--env", "try")
    assert plan["changed"] == {"marts.net": ["query"]}
    assert plan["affected"] == {"marts.running": "marts.net"}
    commands.run("run", "--env", "try")
    found = commands.json("diff", "marts.net", "--env", "try", "--against", "prod", code=3)
    assert [(each["table"], [label["changed"] for label in each["labels"]]) for each in found["tables"]] == [
        ("marts.net", [2, 2])
    ]
    assert digest_of_production(bucket, schema) == made

    promotion = commands.json("promote", "try", "--dry-run", "--now", NOW)
    assert {name: len(labels) for name, labels in promotion["adopted"].items()} == {"marts.net": 2, "marts.running": 2}
    assert not promotion["computed"]
    assert digest_of_production(bucket, schema) == made
    commands.run("promote", "try", "--now", NOW, "--yes")
    compared = commands.json("diff", "--all", "--env", "try", "--against", "prod")
    assert {each["table"]: each["equal"] for each in compared["tables"]} == {
        "shop.sales": 2,
        "marts.net": 2,
        "marts.same": 2,
        "marts.running": 2,
    }
    promoted = digest_of_production(bucket, schema)
    commands.run("branch", "delete", "try", "--yes")
    assert digest_of_production(bucket, schema) == promoted
    left = files_below(entry_path(f"s3://{bucket}", "branches"))
    assert not [file.path for file in left if file.size]
    assert not (root / ".branches").exists()
