"""The project that `init` creates, from its first run to its history, as a new user would use it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from waterclock.cli.app import app

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Newcomer:
    """A new user in the folder of their first project."""

    folder: Path
    first_run: Result

    def types(self, *arguments: str) -> Result:
        found = CliRunner().invoke(app, [*arguments, "--project", str(self.folder)], env={"COLUMNS": "100"})
        assert found.exception is None or isinstance(found.exception, SystemExit)
        return found

    def json(self, *arguments: str) -> Any:
        return json.loads(self.types(*arguments, "--json").stdout)


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    # opened by a link, at a path with characters that are special in a shell, a URL or a glob pattern
    real = tmp_path_factory.mktemp("first") / "it's Zoë's [x] {y,z} 100% #1 a*b? $HOME"
    real.mkdir()
    folder = tmp_path_factory.mktemp("link") / "to it"
    folder.symlink_to(real, target_is_directory=True)
    folder /= "shop"
    assert CliRunner().invoke(app, ["init", str(folder)]).exit_code == 0
    first = CliRunner().invoke(app, ["run", "--project", str(folder)], env={"COLUMNS": "100"})
    return Newcomer(folder, first)


def test_scenario_q_the_second_run_reports_nothing_due_and_starts_no_spark(newcomer: Newcomer) -> None:
    assert newcomer.first_run.exit_code == 0, newcomer.first_run.output
    assert "17 batches done" in newcomer.first_run.stdout
    code = (
        "import sys; from waterclock.cli.app import main; "
        f"code = main(['run', '--project', {str(newcomer.folder)!r}]); print('pyspark' in sys.modules); sys.exit(code)"
    )
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said, has_spark = again.stdout.splitlines()
    assert again.returncode == 0
    assert said.startswith("nothing is due; next due ")
    assert has_spark == "False"


def test_the_first_run_prints_a_line_for_every_table(newcomer: Newcomer) -> None:
    lines = [line for line in newcomer.first_run.stdout.splitlines() if line.startswith("✓")]
    tables = {line.split()[1] for line in lines}
    assert {"shop.orders", "shop.customers", "sales.by_country", "out.by_country"} <= tables


def test_the_tables_answer_in_sql(newcomer: Newcomer) -> None:
    told = newcomer.json(
        "query", "SELECT sum(orders) AS orders, count(DISTINCT timelabel) AS days FROM sales.by_country"
    )
    assert told["rows"] == [[27, 3]]
    assert [column["name"] for column in told["columns"]] == ["orders", "days"]


def test_the_status_tables_answer_in_sql(newcomer: Newcomer) -> None:
    told = newcomer.json(
        "query", "SELECT status, count(*) AS n FROM waterclock.batches WHERE `table` LIKE 'shop.%' GROUP BY status"
    )
    assert told["rows"] == [["done", 4]]
    # other tests make more.ratio and more.mean, and older labels of sales.best_customers
    others = "`table` LIKE 'more.%' OR `table` = 'sales.best_customers'"
    assert len(newcomer.json("query", f"SELECT * FROM waterclock.batches WHERE NOT ({others})")["rows"]) == 16
    assert newcomer.json("query", "SELECT * FROM waterclock.inputs")["rows"]


def test_a_query_prints_that_rows_beyond_the_limit_are_omitted(newcomer: Newcomer) -> None:
    found = newcomer.types("query", "SELECT order_id FROM shop.orders ORDER BY order_id", "--limit", "2")
    assert found.stdout.splitlines()[-1] == "the first 2 rows; --limit shows more"


def test_an_unknown_table_of_a_query_is_refused_with_the_nearest(newcomer: Newcomer) -> None:
    found = newcomer.types("query", "SELECT * FROM sales.by_county")
    assert found.exit_code == 1
    assert "unknown table sales.by_county" in found.stderr
    assert "sales.by_country" in found.stderr
    assert "Traceback" not in found.output


def test_published_files_contain_all_rows_of_the_table(newcomer: Newcomer) -> None:
    files = sorted((newcomer.folder / "data" / "out" / "by_country").glob("*.csv"))
    assert len(files) == 3
    delivered = 0
    for file in files:
        with file.open(encoding="utf-8") as lines:
            delivered += sum(int(row["orders"]) for row in csv.DictReader(lines))
    assert delivered == 27


def test_a_table_is_shown_with_its_columns_and_some_rows(newcomer: Newcomer) -> None:
    told = newcomer.json("show", "sales.by_country", "--rows", "2")
    names = [column["name"] for column in told["columns"]]
    assert names == ["timelabel", "country", "orders", "revenue", "large"]
    assert len(told["sample"]["rows"]) == 2
    assert {row[0] for row in told["sample"]["rows"]} == {told["newest_label"]}


def test_audit_lists_the_inputs_of_a_batch_back_to_the_source(newcomer: Newcomer) -> None:
    [newest] = newcomer.json("audit", "out.by_country", "--last", "1")["batches"]
    told = newcomer.json("audit", f"out.by_country@{newest['label']}")
    assert {link["table"] for link in told["made_from"]} == {"sales.by_country", "shop.orders", "shop.customers"}
    assert told["attempts"][0]["revision"]["rows"] > 0


def test_the_grid_is_quiet_where_all_is_well(newcomer: Newcomer) -> None:
    told = newcomer.json("status")
    states = {cell["state"] for row in told["rows"] for cell in row["cells"] if cell}
    assert states <= {"ok", "stood for", "not needed"}
    assert told["due"] == {}


def test_a_failed_query_blocks_its_readers_and_retry_runs_them_once_it_is_fixed(newcomer: Newcomer) -> None:
    flow = newcomer.folder / "flows" / "4_more.dpl"
    flow.write_text(
        "TRANSFORM more.ratio PARTITIONED AS SELECT order_id, 1 / (order_id - order_id) AS r FROM shop.orders;\n"
        "TRANSFORM more.mean PARTITIONED AS SELECT avg(r) AS r FROM more.ratio;\n"
    )
    broken = newcomer.types("run")
    assert broken.exit_code == 1
    assert "more.ratio" in broken.stdout
    assert "blocked by more.ratio@" in broken.stdout
    assert "Traceback" not in broken.output
    assert newcomer.types("plan", "--detailed-exitcode").exit_code == 11
    flow.write_text(flow.read_text().replace("(order_id - order_id)", "order_id"))
    mended = newcomer.json("retry", "more.ratio")
    assert (mended["done"], mended["failed"]) == (6, [])
    assert newcomer.types("plan", "--detailed-exitcode").exit_code == 0


def test_backfill_makes_days_that_no_reader_needed(newcomer: Newcomer) -> None:
    start = newcomer.json("audit", "shop.orders")["batches"][0]["label"]
    told = newcomer.json("backfill", "sales.best_customers", f"{start}..", "--yes")
    assert (told["done"], told["failed"]) == (2, [])
    assert len(newcomer.json("audit", "sales.best_customers")["batches"]) == 3


def test_a_run_skips_a_paused_table_and_makes_its_requests_after_resume(newcomer: Newcomer) -> None:
    label = newcomer.json("status")["columns"][-1]["label"]
    newcomer.types("pause", "sales.by_country", "--why", "the rates are wrong")
    kept = newcomer.types("recompute", "sales.by_country", label, "--yes")
    assert kept.exit_code == 0
    assert "requests are kept, and carried out after `waterclock resume`" in kept.stdout
    attempts = len(newcomer.json("audit", f"sales.by_country@{label}")["attempts"])
    waits = newcomer.json("run")
    assert (waits["done"], waits["left"]["paused"]) == (0, 1)
    assert waits["paused"]["sales.by_country"]["why"] == "the rates are wrong"
    newcomer.types("resume", "sales.by_country")
    assert newcomer.json("run")["done"] == 1
    audit = newcomer.json("audit", f"sales.by_country@{label}")
    assert len(audit["attempts"]) == attempts + 1
    assert [each["kind"] for each in audit["pauses"]] == ["paused", "resumed"]
