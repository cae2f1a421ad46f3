from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.slices import hour, sealed
from tests.unit.cli.conftest import Shop, ask, cpu_seconds
from waterclock.cli.views.check import check_project, sort_errors
from waterclock.engine.connections import connections_of
from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command
from waterclock.operations.project_opening import open_checked


def break_two_files(project: Path) -> None:
    collect = project / "flows" / "1_collect.dpl"
    transform = project / "flows" / "2_transform.dpl"
    collect.write_text(collect.read_text().replace("EVERY DAY BY DATA TIME", "EVERY 7 HOURS BY DATA TIME"))
    transform.write_text(transform.read_text().replace("JOIN shop.customers c ON", "JOIN shop.custommers c ON", 1))


def declare_what_is_compared_with_the_ledger(project: Path) -> None:
    """Declare a compatibility promise, a retired column, and a table whose columns are those of its runs."""
    collect = project / "flows" / "1_collect.dpl"
    text = collect.read_text().replace("COMMENT 'One row per order'", "COMPATIBLE FULL")
    text = text.replace("(customer_id KEY, name NOT NULL, country)", "(customer_id KEY, *)")
    collect.write_text(text.replace("page, visits INT", "page RETIRE '2024-01-01', visits INT"))


def test_a_sound_project_is_summed_up_in_one_line(fresh: Path) -> None:
    found = ask("check", "--project", str(fresh))
    assert found.exit_code == 0
    assert found.stdout == "no errors: 3 collects, 3 transforms, 1 publish, 3 connections in env dev\n"


def test_warnings_are_shown_and_counted_and_fail_nothing(fresh: Path) -> None:
    transform = fresh / "flows" / "2_transform.dpl"
    transform.write_text(transform.read_text().replace("max(c.name)", "first(c.name)"))
    found = ask("check", "--project", str(fresh))
    assert found.exit_code == 0
    assert found.stdout.startswith("W201 first takes an arbitrary row of a group\n  flows/2_transform.dpl:9:26")
    assert found.stdout.splitlines()[-1].startswith("no errors, 1 warning: 3 collects")
    told = json.loads(ask("check", "--json", "--project", str(fresh)).stdout)
    assert (told["ok"], [warning["code"] for warning in told["warnings"]]) == (True, ["W201"])


def test_files_with_a_date_in_their_names_that_nothing_declares_are_warned_of(fresh: Path) -> None:
    collect = fresh / "flows" / "1_collect.dpl"
    (fresh / "in").mkdir()
    (fresh / "in" / "stays_20261110.csv").write_text("id\n1\n")
    (fresh / "in" / "stays_20261111.csv").write_text("id\n2\n")
    told = collect.read_text()
    more = "\nCREATE CONNECTION drop TYPE files OPTIONS (path 'in');\n"
    more += "COLLECT raw.stays PARTITIONED FROM drop.`stays_*.csv`{} EVERY DAY BY ARRIVAL TIME;\n"
    collect.write_text(told + more.format(""))
    found = ask("check", "--project", str(fresh))
    assert found.exit_code == 0
    assert "W203 stays_20261110.csv and 1 more have dates in their names that nothing declares" in found.stdout
    assert "OPTIONS (stamp '%Y%m%d')" in found.stdout
    for stamp in ("%Y%m%d", "changed"):
        collect.write_text(told + more.format(f" OPTIONS (stamp '{stamp}')"))
        assert "W203" not in ask("check", "--project", str(fresh)).stdout
    collect.write_text(told + more.format(" OPTIONS (stamp 'yyyyMMdd')"))
    assert "E335 invalid stamp 'yyyyMMdd'" in ask("check", "--project", str(fresh)).stdout


def test_scenario_j_all_errors_of_two_files_are_shown_at_once_each_with_its_place(fresh: Path) -> None:
    break_two_files(fresh)
    found = ask("check", "--project", str(fresh))
    assert found.exit_code == 1
    assert "flows/1_collect.dpl:9:" in found.stdout
    assert "flows/2_transform.dpl:4:" in found.stdout
    assert found.stdout.index("1_collect") < found.stdout.index("2_transform")
    assert "did you mean shop.customers" in found.stdout
    assert found.stdout.rstrip().endswith("errors in 2 files; nothing can run")


def test_an_unreadable_unit_is_reported_with_its_position(fresh: Path) -> None:
    collect = fresh / "flows" / "1_collect.dpl"
    more = "\nCREATE CONNECTION drop TYPE files OPTIONS (path 'in');\n"
    more += "COLLECT raw.stays PARTITIONED FROM drop.stays EVERY DAY BY ARRIVAL TIME;\n"
    collect.write_text(collect.read_text() + more)
    found = ask("check", "--project", str(fresh))
    assert found.exit_code == 1
    assert "E803 'stays' does not name files\n  flows/1_collect.dpl:" in found.stdout
    assert found.stdout.splitlines()[-1] == "1 error in 1 file"  # all other tables run
    assert "a unit of files is supplier.source, or a glob" in found.stdout


DRIVERS = {
    "duckdb": ("duckdb", "path 'in.db'"),
    "kafka": ("confluent_kafka", "servers 'localhost:9092'"),
    "mysql": ("pymysql", "url 'mysql://reader@localhost/shop'"),
    "postgres": ("psycopg", "url 'postgresql://reader@localhost/shop'"),
    "rest": ("httpx2", "url 'https://api.example.com'"),
}


@pytest.mark.parametrize("type_name", DRIVERS)
def test_a_driver_that_is_not_installed_is_reported(
    fresh: Path, type_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, options = DRIVERS[type_name]
    kind, batching = ("PARTITIONED ", " BY ARRIVAL TIME") if type_name == "kafka" else ("", "")
    collect = fresh / "flows" / "1_collect.dpl"
    more = f"\nCREATE CONNECTION there TYPE {type_name} OPTIONS ({options});\n"
    more += f"COLLECT raw.more {kind}FROM there.more EVERY DAY{batching};\n"
    collect.write_text(collect.read_text() + more)
    assert ask("check", "--project", str(fresh)).exit_code == 0
    monkeypatch.setitem(sys.modules, module, None)
    found = ask("check", "--project", str(fresh))
    assert found.exit_code == 1
    place = f"flows/1_collect.dpl:{len(collect.read_text().splitlines()) - 1}:"
    assert f"E825 the connection there needs a driver that is not installed\n  {place}" in found.stdout
    assert f"connections of type {type_name} use {module}: " in found.stdout
    assert extra_install_command(type_name) in found.stdout
    assert not found.stdout.rstrip().endswith("nothing can run")
    with pytest.raises(WaterclockError) as refused:
        connections_of(open_checked(fresh, "dev")).collector("there")
    assert (refused.value.code, refused.value.transient) == ("E825", False)


def test_the_driver_of_a_connection_that_no_run_opens_is_not_required(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect = fresh / "flows" / "1_collect.dpl"
    more = "\nCREATE CONNECTION there TYPE mysql OPTIONS (url 'mysql://reader@localhost/shop');\n"
    collect.write_text(collect.read_text() + more)
    monkeypatch.setitem(sys.modules, "pymysql", None)
    assert ask("check", "--project", str(fresh)).exit_code == 0
    publish = "PUBLISH shop.orders TO there.orders;\n"
    (fresh / "flows" / "9_publish.dpl").write_text(publish)
    assert "E825" in ask("check", "--project", str(fresh)).stdout
    settings = fresh / "waterclock.toml"
    settings.write_text(settings.read_text().replace("publish = true", "publish = false"))
    assert "E825" not in ask("check", "--project", str(fresh)).stdout


def test_an_error_shows_its_line_with_carets_below_the_wrong_word(fresh: Path) -> None:
    break_two_files(fresh)
    lines = ask("check", "--project", str(fresh)).stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if "JOIN shop.custommers" in line)
    assert lines[at + 1].index("^") == lines[at].index("shop.custommers")
    assert lines[at + 1].count("^") == len("shop.custommers")


def test_as_json_each_error_has_its_parts_and_the_exit_code_is_the_same(fresh: Path) -> None:
    assert json.loads(ask("check", "--json", "--project", str(fresh)).stdout)["ok"] is True
    break_two_files(fresh)
    found = ask("check", "--json", "--project", str(fresh))
    told = json.loads(found.stdout)
    assert found.exit_code == 1
    assert told["ok"] is False
    assert {"code", "what", "where", "why", "fix", "excerpt", "transient"} <= told["errors"][0].keys()


def test_scenario_k_an_unknown_column_of_an_open_collect_is_refused_once_it_ran(fresh: Path) -> None:
    collect = fresh / "flows" / "1_collect.dpl"
    collect.write_text(collect.read_text().replace("(customer_id KEY, name NOT NULL, country)", "(customer_id KEY, *)"))
    transform = fresh / "flows" / "2_transform.dpl"
    transform.write_text(transform.read_text().replace("SELECT c.country,", "SELECT c.contry AS country,"))
    assert ask("check", "--project", str(fresh)).exit_code == 0, "the source's columns are not known yet"
    rows = pa.table({"timelabel": ["20241119000000"], "customer_id": [1], "name": ["Ada"], "country": ["GB"]})
    write_deltalake(fresh / ".waterclock" / "tables" / "shop" / "customers", rows)
    found = ask("check", "--project", str(fresh))
    assert found.exit_code == 1
    assert "E203 unknown column c.contry" in found.stdout
    assert "did you mean" in found.stdout
    assert "country" in found.stdout
    assert "nothing can run" not in found.stdout  # a run does not compare these columns
    break_two_files(fresh)
    assert ask("check", "--project", str(fresh)).stdout.rstrip().endswith("nothing can run")


def test_a_misspelt_time_of_an_open_collect_with_versions_is_refused_once_it_ran(fresh: Path) -> None:
    collect = fresh / "flows" / "1_collect.dpl"
    said = "\nCOLLECT shop.staff (id KEY, *) FROM shop.staff EVERY DAY BY DATA TIME at START '2024-01-01' TEMPORAL AT "
    collect.write_text(collect.read_text() + said + "changd_at;\n")
    assert ask("check", "--project", str(fresh)).exit_code == 0, "the source's columns are not known yet"
    folder = fresh / ".waterclock" / "tables" / "shop" / "staff"
    write_deltalake(folder, pa.table({"timelabel": ["20241119000000"], "id": [1], "rec_eff_time": ["x"]}))
    rows = [("timelabel", pa.string()), ("id", pa.int64()), ("changed_at", pa.timestamp("us", "UTC"))]
    sealed(str(folder), hour(0), 1, [], schema=pa.schema(rows))
    found = ask("check", "--project", str(fresh))
    assert found.exit_code == 1
    assert "E203 unknown column changd_at" in found.stdout
    assert "did you mean changed_at?" in found.stdout
    collect.write_text(collect.read_text().replace("changd_at", "changed_at"))
    assert ask("check", "--project", str(fresh)).exit_code == 0


def test_check_makes_nothing(fresh: Path) -> None:
    declare_what_is_compared_with_the_ledger(fresh)
    assert ask("check", "--project", str(fresh)).exit_code == 0
    assert not (fresh / ".waterclock").exists()


@pytest.mark.slow
def test_check_takes_less_than_a_second_of_cpu(fresh: Path) -> None:
    # CPU time itself grows if other processes share the cores; then the ratio to the cost of check's imports decides
    stretched = 4 * cpu_seconds("-c", "import pydantic, rich, sqlglot, typer")
    assert cpu_seconds("-m", "waterclock", "check", "--project", str(fresh)) < max(1.0, stretched)


def test_errors_are_sorted_by_file_then_line_then_column_as_numbers() -> None:
    places = ["b.dpl:1:1", "a.dpl:10:2", "a.dpl:9:30", "a.dpl:9:4", None]
    errors = [WaterclockError("E1", "x", where=place) for place in places]
    assert [error.where for error in sort_errors(errors)] == [
        None,
        "a.dpl:9:4",
        "a.dpl:9:30",
        "a.dpl:10:2",
        "b.dpl:1:1",
    ]


@pytest.mark.parametrize(
    ("promise", "declared", "wanted"),
    [
        ("BACKWARD", "amount DOUBLE", None),
        ("BACKWARD", "amount INT", "amount is double, which cannot be read as int"),
        ("FORWARD", "amount DECIMAL(12,2)", "amount is decimal(12,2), which cannot be read as double"),
        ("FULL", "amount DOUBLE NOT NULL", "amount may be null where it is written, but not where it is read"),
        ("FORWARD", "amount DOUBLE NOT NULL", None),
    ],
)
def test_promises_of_compatibility_are_held_against_the_versions_that_are_kept(
    shop: Shop, promise: str, declared: str, wanted: str | None
) -> None:
    columns = {
        "order_id": "string KEY",
        "customer_id": "string NOT NULL",
        "amount": "double",
        "ordered_at": "timestamp",
    }
    shop.done("shop.orders", 17, schema={"table": columns | {"ordered_at": "timestamp NOT NULL"}})
    file = shop.folder / "flows" / "1_collect.dpl"
    said = file.read_text().replace("amount DOUBLE", declared)
    file.write_text(said.replace("COMMENT 'One row per order'", f"COMPATIBLE {promise}"))
    found = shop.ask("check")
    if wanted is None:
        assert found.exit_code == 0, found.stdout
        return
    assert found.exit_code == 1
    card = found.stdout + found.stderr
    assert f"E450 shop.orders breaks COMPATIBLE {promise}: {wanted}" in " ".join(card.split())
    assert "flows/1_collect.dpl:7:41" in card
    assert "amount as DOUBLE again" in card


def test_a_table_that_would_need_a_rebuild_is_reported_by_check_and_plan(busy_shop: Shop) -> None:
    assert busy_shop.ask("check").exit_code == 0
    collect = busy_shop.folder / "flows" / "1_collect.dpl"
    collect.write_text(collect.read_text().replace("EVERY DAY", "EVERY HOUR"))
    for command, code in {"check": 1, "plan --detailed-exitcode": 11, "status": 0}.items():
        found = busy_shop.ask(*command.split())
        assert found.exit_code == code, command
        assert "nothing can run" not in found.output
        assert "E405 web.visits has changed, and its batches follow the former declaration" in found.output
        assert "cadence was DAY, is now HOUR" in found.output


def test_an_error_found_by_the_ledger_does_not_hide_other_errors(busy_shop: Shop) -> None:
    collect = busy_shop.folder / "flows" / "1_collect.dpl"
    more = "\nCREATE CONNECTION drop TYPE files OPTIONS (path 'in');\n"
    more += "COLLECT raw.stays PARTITIONED FROM drop.stays EVERY DAY BY ARRIVAL TIME;\n"
    collect.write_text(collect.read_text().replace("EVERY DAY", "EVERY HOUR") + more)
    assert {error["code"] for error in busy_shop.json("check")["errors"]} == {"E405", "E803"}


def test_a_ledger_on_a_server_is_read_only_with_connect(busy_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    declare_what_is_compared_with_the_ledger(busy_shop.folder)
    project = busy_shop.folder / "waterclock.toml"
    url = "postgresql://keeper@127.0.0.1:1/none"
    project.write_text(f'{project.read_text()}ledger = "{url}"\n')
    read: list[str] = []
    for name in ("query", "open"):
        monkeypatch.setattr(f"waterclock.ledger.ledger.Ledger.{name}", lambda at, *_, **__: read.append(at))
    assert not check_project(busy_shop.folder, None).errors
    assert read == []
    assert not check_project(busy_shop.folder, None, connect=True).errors
    assert set(read) == {url}


def test_check_does_not_update_a_ledger_of_older_code(busy_shop: Shop) -> None:
    declare_what_is_compared_with_the_ledger(busy_shop.folder)
    with closing(sqlite3.connect(busy_shop.ledger_file)) as database, database:
        database.execute("ALTER TABLE ledger DROP COLUMN last_recorded")
        database.execute("DROP TABLE former_names")  # as after migration 0017
        database.execute("UPDATE alembic_version SET version_num = '0017'")
    assert busy_shop.ask("check").exit_code == 0
    with closing(sqlite3.connect(busy_shop.ledger_file)) as database:
        assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [("0017",)]
