from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.cli.conftest import Shop, ask, cpu_seconds
from waterclock.cli.app import COMMANDS, app, main
from waterclock.cli.views.json import want_json
from waterclock.errors import WaterclockError

NAMES = [function.__name__ for functions in COMMANDS.values() for function in functions]
HEAVY = ("pyspark", "sqlalchemy", "alembic", "sqlglot", "deltalake", "pyarrow", "pydantic", "rich")
IMPORTED = """
import functools, sys, typer.main
from waterclock.cli.app import main
typer.main.get_command = functools.cache(typer.main.get_command)  # built anew by each of some fifty commands
for command in {commands!r}:
    main(command)
print("|" + " ".join(sorted({{name.partition(".")[0] for name in sys.modules}})), file=sys.stderr)
"""


def imported_by(*commands: list[str]) -> set[str]:
    """Return the modules that a fresh process has imported after some command lines."""
    code = IMPORTED.format(commands=list(commands))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.rpartition("|")[2].split())


AFTER_DUCKDB = """
import duckdb
from waterclock.cli.app import main
try:
    duckdb.connect().execute("SELECT nope")
except duckdb.Error as error:
    kept = error
main(["--version"])
"""


def test_the_duckdb_driver_prints_nothing_at_process_exit() -> None:
    done = subprocess.run([sys.executable, "-c", AFTER_DUCKDB], capture_output=True, text=True, check=True)
    assert done.stderr == "", "its objects are freed"


def test_help_loads_nothing_heavy() -> None:
    found = imported_by(["--help"], *([name, "--help"] for name in NAMES))
    assert "typer" in found
    assert not found & set(HEAVY)


@pytest.mark.slow
@pytest.mark.parametrize("command", [[], ["run"]])
def test_help_takes_less_than_a_fifth_of_a_second_of_cpu(command: list[str]) -> None:
    # CPU time itself grows if other processes share the cores; then the ratio to the cost of help's imports decides
    stretched = 3.5 * cpu_seconds("-c", "import typer")
    assert cpu_seconds("-m", "waterclock", *command, "--help") < max(0.2, stretched)


@pytest.mark.slow
def test_commands_that_touch_no_data_never_load_spark(busy_shop: Shop) -> None:
    commands = "check|plan|status|audit shop.orders|lineage shop.orders.amount|show shop.orders -n0|retry --no-run"
    here = ["--project", str(busy_shop.folder)]
    found = imported_by(*([*command.split(), *here] for command in commands.split("|")))
    assert "sqlalchemy" in found
    assert "pyspark" not in found


def test_tables_of_every_connector_are_checked_and_planned_without_their_libraries(tmp_path: Path) -> None:
    reached = {
        "files": 'path = "new"', "duckdb": 'path = "d.duckdb"', "sqlite": 'path = "l.sqlite"', "receiver": 'path = "d"',
        "postgres": 'url = "postgresql://u@127.0.0.1:1/x"', "kafka": 'servers = "127.0.0.1:1"',
        "rest": 'url = "http://127.0.0.1:1"',
    }  # fmt: skip
    by_time = {"sqlite", "postgres", "rest"}
    said = [f"CREATE CONNECTION {kind} TYPE {kind};" for kind in reached]
    for number, kind in enumerate(list(reached) * 3):
        how = "" if kind == "duckdb" else "BY DATA TIME at" if kind in by_time else "BY ARRIVAL TIME"
        said.append(f"COLLECT raw.t{number} (id KEY, at TIMESTAMP, *) FROM {kind}.t{number} EVERY DAY {how};")
        if kind != "receiver":
            said.append(f"PUBLISH raw.t{number} TO {kind}.o{number} APPEND;")
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "all.dpl").write_text("\n".join(said), encoding="utf-8")
    connections = "\n".join(f"connections.{kind} = {{ {how} }}" for kind, how in reached.items())
    (tmp_path / "waterclock.toml").write_text(
        f'[project]\nname = "all"\n[defaults]\nstart = "2013-01-01"\n[env.dev]\npublish = true\n{connections}\n',
        encoding="utf-8",
    )
    here = ["--project", str(tmp_path), "--now", "2013-01-03"]
    found = imported_by(*([command, *here] for command in ("check", "plan", "status")))
    libraries = {"pyspark", "pyarrow", "numpy", "duckdb", "psycopg", "confluent_kafka", "fastavro", "httpx2"}
    assert "sqlalchemy" in found
    assert not found & (libraries | {"openpyxl", "python_calamine", "granian", "uvicorn", "starlette", "tenacity"})


@pytest.mark.slow
def test_a_large_project_that_did_not_change_is_neither_parsed_nor_validated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = "COLLECT raw.a PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;"
    tables = [f"TRANSFORM marts.t{n} PARTITIONED AS SELECT id FROM raw.a;" for n in range(120)]
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "all.dpl").write_text(
        "\n".join(["CREATE CONNECTION shop TYPE sqlite;", source, *tables]), encoding="utf-8"
    )
    (tmp_path / "waterclock.toml").write_text(
        '[project]\nname = "big"\n[defaults]\nstart = "2013-01-01"\n[env.dev]\nconnections.shop = { path = "s.db" }\n',
        encoding="utf-8",
    )
    words = ["--project", str(tmp_path), "--now", "2013-01-03"]
    assert {"pydantic", "sqlglot"} <= imported_by(["plan", *words])
    assert not {"pydantic", "sqlglot"} & imported_by(["plan", *words], ["status", "marts.*", "raw.a", *words])


@pytest.mark.parametrize("name", NAMES)
def test_help_names_no_type_of_python(name: str) -> None:
    assert "<" not in ask(name, "--help", width=200).stdout


def test_help_lists_every_command_under_its_group_with_a_description() -> None:
    text = ask("--help").stdout
    for group, functions in COMMANDS.items():
        assert f"{group}:" in text
        for function in functions:
            assert re.search(rf"^  {function.__name__} +[A-Z]", text, re.MULTILINE), function.__name__
    assert "Exit codes" in text


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_a_json_option_and_every_option_a_description(name: str) -> None:
    text = ask(name, "--help", width=200).stdout
    assert "--json" in text
    options = [line for line in text.splitlines() if re.match(r"  (-|\[|[A-Z]{3})", line)]
    assert all(len(re.split(r" {2,}", line.strip())) > 1 for line in options), options


def test_version_is_printed_alone() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", ask("--version").stdout)


def test_an_unknown_command_is_a_usage_error_that_names_the_nearest() -> None:
    found = ask("stauts")
    assert found.exit_code == 2
    assert "status" in found.stderr


def test_an_unknown_option_is_a_usage_error() -> None:
    assert ask("plan", "--nwo", "x").exit_code == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("revert", "shop.t", "2026-01-01", "--to", "5"), "waterclock revert shop.t@2026-01-01"),
        (("revert", "--to", "previous", "shop.t", "2026-01-01..2026-01-03"), "revert shop.t@2026-01-01..2026-01-03"),
        (("drop", "shop.t", "..2026-01-01", "--why", "x"), "waterclock drop shop.t@..2026-01-01"),
        (("close", "shop.t", "2026-01-01", "--why", "x"), "waterclock close shop.t@2026-01-01"),
        (("revert", "shop.t@2026-01-01", "more", "--to", "5"), "unexpected extra argument"),
    ],
)
def test_labels_apart_from_their_table_are_a_usage_error_that_names_the_one_word(
    words: tuple[str, ...], hint: str
) -> None:
    found = ask(*words, "--json")
    assert found.exit_code == 2
    assert hint in json.loads(found.stdout)["error"]["what"]


def test_main_gives_the_exit_code_and_leaves_the_process_running(
    fresh: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--project", str(fresh)]) == 0
    assert main(["check", "--project", str(fresh / "flows")]) == 1
    assert main(["nothing"]) == 2
    assert main(["--version"]) == 0
    assert "no errors" in capsys.readouterr().out


def test_an_error_is_a_card_on_stderr_and_never_a_traceback(tmp_path: Path) -> None:
    found = ask("plan", "--project", str(tmp_path))
    assert found.exit_code == 1
    assert found.stdout == ""
    assert re.search(r"^E244 no project here$", found.stderr, re.MULTILINE)
    assert "why  there is no such folder" in ask("check", "--project", str(tmp_path / "nope")).output
    assert "fix  " in found.stderr
    assert "Traceback" not in found.output


def test_with_json_an_error_is_json_on_stdout_and_nothing_else(tmp_path: Path) -> None:
    found = ask("plan", "--json", "--project", str(tmp_path))
    assert found.exit_code == 1
    told = json.loads(found.stdout)["error"]
    assert told["errors"][0]["code"] == "E244"
    assert found.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("plan", "--json", "--nwo", "x"), "--nwo"),
        (("--nonsense", "plan", "--json"), "--nonsense"),
        (("plann", "--json"), "plann"),
        (("show", "--json"), "Missing argument"),
        (("ledger", "nothing", "--json"), "nothing"),
        (("run", "--threads", "many", "--json"), "--threads"),
        (("run", "--json", "--watch", "--now", "2024-11-19"), "--watch uses the real clock"),
    ],
)
def test_with_json_a_command_line_that_cannot_be_read_is_json_too(
    fresh: Path, arguments: tuple[str, ...], says: str
) -> None:
    found = ask(*arguments, *(("--project", str(fresh)) if arguments[0] == "run" else ()))
    assert found.exit_code == 2
    told = json.loads(found.stdout)
    assert told["version"] == 1
    assert told["error"]["code"] == "E906"
    assert says in told["error"]["what"]
    assert "--help" in told["error"]["fix"]
    assert found.stderr == ""


def test_with_json_the_exit_code_is_that_of_the_command(fresh: Path) -> None:
    assert ask("check", "--json", "--project", str(fresh)).exit_code == 0
    assert ask("plan", "--json", "--detailed-exitcode", "--project", str(fresh)).exit_code == 10
    assert main(["plan", "--json", "--nwo"]) == 2


def test_an_internal_error_is_shown_as_one_card_with_its_traceback_in_the_project_log(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.cli.views.check.check_project", _broken)
    found = ask("check", "--project", str(fresh))
    assert found.exit_code == 1
    assert "E999 this is a defect of Waterclock" in found.stderr
    assert "ZeroDivisionError: seven" in found.stderr
    assert "Traceback" not in found.output
    [log] = (fresh / ".waterclock" / "log").iterdir()
    assert "in _broken" in log.read_text()


def test_with_traceback_a_defect_is_raised_as_it_is(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.cli.views.check.check_project", _broken)
    found = CliRunner().invoke(app, ["--traceback", "check", "--project", str(fresh)])
    assert isinstance(found.exception, ZeroDivisionError)


def test_ctrl_c_is_quiet_and_leaves_with_130(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.cli.views.check.check_project", _interrupted)
    found = ask("check", "--project", str(fresh))
    assert found.exit_code == 130
    assert found.output == ""


@pytest.mark.slow
@pytest.mark.parametrize("asked", [["plan", "--json"], ["plan"], ["model"]])
def test_a_closed_output_pipe_causes_no_error(busy_shop: Shop, asked: list[str]) -> None:
    """`plan | head` exits with 0, as without `head`; otherwise a script with pipefail would end."""
    command = [sys.executable, "-m", "waterclock", *asked, "--project", str(busy_shop.folder)]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.slow
def test_without_a_stdout_commands_end_as_usual(busy_shop: Shop) -> None:
    for asked, code in ((["plan", "--json"], 0), (["audit", "web.per_order", "--json"], 1)):
        command = shlex.join([sys.executable, "-m", "waterclock", *asked, "--project", str(busy_shop.folder)])
        done = subprocess.run(["sh", "-c", f"{command} >&-"], stderr=subprocess.PIPE, text=True, check=False)
        assert (done.stderr, done.returncode) == ("", code)


@pytest.mark.parametrize("command", [["plan"], ["init", "flow"]])
def test_a_deleted_working_folder_is_an_error_and_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    want_json(value=True)  # by an earlier command line of the process
    monkeypatch.chdir(folder)
    folder.rmdir()
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 1
    assert "E925 the current folder does not exist any more" in found.stderr
    assert "E999" not in found.stderr


def test_errors_pass_as_they_are_through_python(tmp_path: Path) -> None:
    from waterclock.operations.project_opening import open_project

    with pytest.raises(WaterclockError):
        open_project(tmp_path, None)


def _broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError("seven")


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
