"""The peer in bench/branch: the virtual environments of SQLMesh on DuckDB, in a separate interpreter."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from measure import Cost

SCRIPT = Path(__file__).with_name("branch_sqlmesh.py")
SECONDS = 600.0  # the longest duration of one step
CONFIG = """\
gateways:
  local:
    connection: { type: duckdb, database: warehouse.duckdb }
default_gateway: local
model_defaults: { dialect: duckdb }
"""
MODELS = {
    "amounts": """\
MODEL (name mart.amounts, kind FULL, grain (day, id));
SELECT day, id, customer, amount + if(id % {changed} = 0, {index}, 0) AS amount, page, country, kind FROM raw.events
""",
    "same": """\
MODEL (name mart.same, kind FULL, grain (day, id));
SELECT day, id, amount + 0 * {index} AS amount FROM raw.events
""",
}


class SqlMesh:
    """A project of SQLMesh with the tables of bench/branch: a FULL model for each, with a column for the day."""

    def __init__(self, python: str, folder: Path, source: Path, days: int, seconds: float = SECONDS) -> None:
        self._python, self._folder, self._seconds = python, folder, seconds
        self.versions = ""
        (folder / "models").mkdir(parents=True)
        (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
        os.link(source, folder / "events.parquet")
        self.step("load", str(days))

    def declare(self, changed: int, index: int) -> None:
        for name, text in MODELS.items():
            path = self._folder / "models" / f"{name}.sql"
            path.write_text(text.format(changed=changed, index=index), encoding="utf-8")

    def step(self, name: str, *words: str) -> tuple[Cost, list[int]]:
        """Run a step. Return its cost, and the changed, removed and added rows if it compares."""
        command, output = [self._python, str(SCRIPT), str(self._folder), name, *words], self._folder / "output.txt"
        with output.open("w", encoding="utf-8") as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=self._folder,
                env=_environment(self._folder), start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(self._seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # SQLMesh starts child processes
                process.wait()
                sys.exit(f"SQLMesh did not end in {self._seconds:.0f} s: {name} {' '.join(words)}\n{_tail(output)}")
        if code:
            sys.exit(f"SQLMesh failed with exit code {code}: {name} {' '.join(words)}\n{_tail(output)}")
        found = json.loads(_tail(output).splitlines()[-1])
        self.versions = found["versions"]
        return Cost(found["wall"], found["cpu"]), found["rows"]


def _tail(output: Path) -> str:
    return output.read_text(encoding="utf-8", errors="replace")[-4000:]


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment variables without those of this project's interpreter and of the user's SQLMesh."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SQLMESH", "VIRTUAL_ENV"))
    }
    return kept | {"HOME": str(folder)}


def find_interpreter(named: str) -> str:
    """Return the path of an interpreter with SQLMesh, or end this process."""
    python = shutil.which(named)
    if python is None:
        sys.exit(f"--sqlmesh {named}: there is no such interpreter")
    done = subprocess.run(
        [python, "-c", "import sqlmesh, duckdb"], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        sys.exit(f"--sqlmesh {named} cannot import SQLMesh (`pip install sqlmesh`, in an environment of its own)")
    return python
