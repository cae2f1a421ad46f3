"""Runs one step of bench/branch with SQLMesh on DuckDB, in an interpreter that has SQLMesh instead of this project.

    PYTHON bench/branch_sqlmesh.py FOLDER STEP

The last line of the output is a JSON object: the seconds and CPU seconds of the step, without the start of Python and
the import of SQLMesh, and the numbers of rows that differ.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ["SQLMESH__DISABLE_ANONYMIZED_ANALYTICS"] = "true"

import duckdb
import sqlmesh
from sqlmesh import Context

Rows = list[int]  # changed, removed, added


def load(folder: Path, days: int) -> Rows:
    """Make `raw.events`: the rows of the file, once for each day."""
    with duckdb.connect(str(folder / "warehouse.duckdb")) as warehouse:
        warehouse.execute("CREATE SCHEMA raw")
        warehouse.execute(
            "CREATE TABLE raw.events AS SELECT d.day, e.* FROM read_parquet($1) e CROSS JOIN range($2) d(day)",
            [str(folder / "events.parquet"), days],
        )
    return []


def plan(folder: Path, environment: str | None) -> Rows:
    """Make an environment equal to the models in the files. `None` is production."""
    Context(paths=[str(folder)]).plan(environment, include_unmodified=True, auto_apply=True, no_prompts=True)
    return []


def compare(folder: Path, model: str) -> Rows:
    """Compare a table of the environment `try` with that of production, as the command `table_diff` does."""
    found = Context(paths=[str(folder)]).table_diff("prod", "try", select_models={model}, show_sample=True)
    if not found:
        return [0, 0, 0]
    rows = found[0].row_diff()
    return [rows.partial_match_count, rows.s_only_count, rows.t_only_count]


def main() -> None:
    folder, step, *words = Path(sys.argv[1]), *sys.argv[2:]
    steps: dict[str, Callable[[], Rows]] = {
        "load": lambda: load(folder, int(words[0])),
        "make": lambda: plan(folder, "try"),
        "compare": lambda: compare(folder, words[0]),
        "promote": lambda: plan(folder, None),
    }
    before, cpu = time.perf_counter(), os.times()
    rows = steps[step]()
    wall, after = time.perf_counter() - before, os.times()
    cost = {"wall": wall, "cpu": sum(after[:4]) - sum(cpu[:4])}
    versions = f"SQLMesh {sqlmesh.__version__}, DuckDB {duckdb.__version__}"
    print(f"\n{json.dumps(cost | {'rows': rows, 'versions': versions})}")


if __name__ == "__main__":
    main()
