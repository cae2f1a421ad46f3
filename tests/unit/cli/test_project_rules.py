"""Rules of the project are queries that can only read its declarations and its ledger, within limits."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Shop
from waterclock.cli.exit_codes import ExitCode
from waterclock.errors import WaterclockError
from waterclock.ledger.read.status import STATUS_TABLES
from waterclock.operations import rule_database
from waterclock.operations.project_opening import open_project
from waterclock.operations.project_rules import check_project_rules
from waterclock.operations.rule_relations import LEDGER_RELATIONS, RELATIONS, ProjectFacts


def write_rule(shop: Shop, text: str, name: str = "rule") -> None:
    (shop.folder / "rules").mkdir(exist_ok=True)
    (shop.folder / "rules" / f"{name}.sql").write_text(text, encoding="utf-8")


def findings(shop: Shop, text: str) -> list[WaterclockError]:
    write_rule(shop, text)
    found = check_project_rules(open_project(shop.folder, None))
    return [*found.errors, *found.warnings]


def only(shop: Shop, sql: str) -> WaterclockError:
    [error] = findings(shop, f"-- message: broken\n{sql}")
    return error


def test_places_that_break_a_rule_are_reported_by_severity(shop: Shop) -> None:
    write_rule(shop, "-- message: {NAME} is a {kind}\nSELECT name, kind, place FROM tables WHERE kind = 'collect'", "a")
    write_rule(
        shop, "-- severity: warning\n-- message: {name}\n-- fix: drop {name}\nSELECT name, place FROM connections", "b"
    )
    answer = shop.json("check")
    assert {each["code"] for each in answer["errors"]} == {"E395"}
    assert {each["code"] for each in answer["warnings"] if each["why"] and "rule b" in each["why"]} == {"W207"}
    orders = next(each for each in answer["errors"] if each["what"] == "shop.orders is a collect")
    assert orders["where"].startswith("flows/")
    assert orders["why"] == "it breaks the rule a of the project in rules/a.sql"
    asked = shop.ask("check")
    assert asked.exit_code == ExitCode.FAILED
    assert "nothing can run" not in asked.stderr
    (shop.folder / "rules" / "a.sql").unlink()
    assert shop.ask("check").exit_code == ExitCode.DONE


@pytest.mark.parametrize("name", RELATIONS)
def test_rows_of_each_relation_fit_its_columns(shop: Shop, name: str) -> None:
    facts = ProjectFacts(open_project(shop.folder, None))
    rows = list(RELATIONS[name].rows(facts))
    assert {len(row) for row in rows} <= {len(RELATIONS[name].columns)}
    assert rows or name in {"tags", "expectations"}
    assert not findings(shop, f"-- message: x\nSELECT place FROM {name} WHERE place IS NULL")


FLOW = """CREATE CONNECTION shop TYPE sqlite OWNER 'ops';
COLLECT raw.orders PARTITIONED (id BIGINT KEY, mail STRING TAGS (Contact) EXPECT (mail LIKE '%@%') AS has_at ELSE WARN)
  FROM shop.orders EVERY DAY BY DATA TIME at START '2026-11-01' TAGS (source);
TRANSFORM marts.mails PARTITIONED AS SELECT o.*, lower(mail) AS lower_mail FROM raw.orders AS o;
"""


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT table_name || coalesce('.' || column_name, '') || ' ' || tag AS n, place FROM tags",
         ["raw.orders source", "raw.orders.mail contact"]),
        ("SELECT name || ' ' || action || ' ' || expression AS n, place FROM expectations WHERE name = 'has_at'",
         ["has_at warn mail LIKE '%@%'"]),
        ("SELECT column_name || ' ' || input || '.' || input_column AS n, place FROM column_lineage ORDER BY 1",
         ["id raw.orders.id", "lower_mail raw.orders.mail", "mail raw.orders.mail"]),
        ("SELECT table_name || '.' || name || is_key AS n, place FROM columns",
         ["marts.mails.id0", "marts.mails.lower_mail0", "marts.mails.mail0", "raw.orders.id1", "raw.orders.mail0"]),
        ("SELECT name || ' ' || owner AS n, place FROM connections", ["shop ops"]),
        ("SELECT name || ' ' || coalesce(connection || '/' || path, cadence) AS n, place FROM tables",
         ["marts.mails EVERY DAY", "raw.orders shop/orders"]),
    ],
)  # fmt: skip
def test_relations_contain_the_declarations(tmp_path: Path, sql: str, expected: list[str]) -> None:
    for folder in ("flows", "rules"):
        (tmp_path / folder).mkdir()
    (tmp_path / "flows" / "all.dpl").write_text(FLOW, encoding="utf-8")
    toml = '[project]\nname = "p"\n[env.dev]\nstorage = ".dev"\nconnections.shop = { path = "shop.db" }\n'
    (tmp_path / "waterclock.toml").write_text(toml, encoding="utf-8")
    (tmp_path / "rules" / "all.sql").write_text(f"-- message: {{n}}\n{sql}", encoding="utf-8")
    found = check_project_rules(open_project(tmp_path, None)).errors
    assert sorted(each.what for each in found) == expected
    assert all((each.where or "").startswith("flows/all.dpl:") for each in found)


def test_tables_of_the_ledger_can_be_read(shop: Shop) -> None:
    assert {*LEDGER_RELATIONS} == {*STATUS_TABLES}
    shop.done("sales.by_country", 17, 18)
    rule = (
        "SELECT name, rows, timelabel, place FROM batches JOIN tables ON name = table_name WHERE timelabel > '20241117'"
    )
    found = findings(shop, f"-- message: {{name}}@{{timelabel}} has {{rows}} rows\n{rule}")
    assert [each.what for each in found] == [f"sales.by_country@2024111{day}000000 has 10 rows" for day in (7, 8)]
    for name in LEDGER_RELATIONS:
        assert not findings(shop, f"-- message: x\nSELECT NULL AS place FROM {name} WHERE table_name = ''")


@pytest.mark.parametrize(
    ("sql", "what", "place", "fix"),
    [
        ("SELECT nme, place FROM tables", "no such column: nme", "2:8", "did you mean name?"),
        ("SELECT 'FORM', place FORM tables", "syntax error near tables", "2:27", None),
        ("SELECT place FROM tabels", "there is no relation tabels", "2:19", "did you mean tables"),
        ("SELECT t.name, place\nFROM tables t, tags", "ambiguous column name: place", "2:16", "RELATION.place"),
        ("SELECT name FROM tables", "returns no column place", "2:1", "add place"),
        ("SELECT unknown(1) AS place", "no such function: unknown", "2:8", None),
        ("SELECT :a AS place", "no parameters", "2:1", None),
        ("SELECT 1 AS place; SELECT 2", "one SELECT", "2:1", None),
        ("-- nothing", "incomplete input", "1:1", None),
    ],
)  # fmt: skip
def test_errors_of_a_query_have_a_place_and_the_nearest_name(
    shop: Shop, sql: str, what: str, place: str, fix: str | None
) -> None:
    error = only(shop, sql)
    assert (error.code, error.where) == ("E396", f"rules/rule.sql:{place}")
    assert what in error.what
    assert fix is None or fix in (error.fix or "")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT 1 AS place", "has no message"),
        ("-- mesage: x\nSELECT 1 AS place", "unknown key mesage"),
        ("-- message: x\n-- severity: fatal\nSELECT 1 AS place", "unknown severity fatal"),
        ("-- message: x\n-- message: y\nSELECT 1 AS place", "declared twice"),
        ("-- message:\nSELECT 1 AS place", "is empty"),
        ("-- message: {nme}\nSELECT 1 AS name, 2 AS place", "returns no column nme"),
        ("-- message: x\0\nSELECT 1 AS place", "cannot be read"),
        (f"-- message: x\nSELECT 1 AS place {' ' * 100_000}", "cannot be read"),
    ],
)
def test_an_invalid_header_is_an_error(shop: Shop, text: str, what: str) -> None:
    [error] = findings(shop, text)
    assert error.code == "E396"
    assert what in error.what


def test_a_pipe_in_the_folder_is_an_error(shop: Shop) -> None:
    (shop.folder / "rules").mkdir()
    os.mkfifo(shop.folder / "rules" / "pipe.sql")
    [error] = check_project_rules(open_project(shop.folder, None)).errors
    assert (error.code, error.where) == ("E396", "rules/pipe.sql")


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH '{file}' AS x", "VACUUM INTO '{file}'", "PRAGMA user_version", "CREATE TABLE x (a)",
        "DROP TABLE tables", "DELETE FROM tables", "INSERT INTO tags VALUES (1, 2, 3, 4)",
        "UPDATE tables SET name = 1", "BEGIN",
        "SELECT load_extension('x') AS place", "SELECT name AS place FROM sqlite_master", "EXPLAIN SELECT 1 AS place",
        "SELECT name AS place FROM pragma_database_list", "SELECT zeroblob(1000000000) AS place",
        "SELECT random() AS place", "SELECT 1 AS place; DROP TABLE tables",
        "SELECT count(*) AS place FROM sqlite_master", "SELECT readfile('/etc/hostname') AS place",
        "CREATE TEMP TRIGGER t AFTER INSERT ON tables BEGIN DELETE FROM tags; END",
    ],
)  # fmt: skip
def test_a_rule_can_only_read(shop: Shop, tmp_path: Path, sql: str) -> None:
    error = only(shop, sql.format(file=tmp_path / "written.db"))
    assert error.code == "E396", error
    assert not (tmp_path / "written.db").exists()
    assert not findings(shop, "-- message: x\nSELECT place FROM tables WHERE name = 'tables'")


ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT {} AS place FROM r"
LARGE = (
    "WITH RECURSIVE r(x, y) AS (SELECT 1, printf('%090000d', 1) UNION ALL SELECT x + 1, y FROM r) "
    "SELECT y || x AS place FROM r ORDER BY 1"
)


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS.format("count(*)"), ENDLESS.format("group_concat(x)"), f"{ENDLESS.format('x')} WHERE x < 0",
        "SELECT count(*) AS place FROM columns a, columns b, columns c, columns d, columns e, columns f, columns g",
    ],
)  # fmt: skip
def test_an_endless_rule_is_stopped(shop: Shop, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    monkeypatch.setattr(rule_database, "SECONDS", 0.3)
    error = only(shop, sql)
    assert error.code in {"E397", "E396"}
    assert "longer than" in (error.why or "") or "too big" in error.what


def test_a_rule_that_needs_much_memory_is_stopped(shop: Shop) -> None:
    write_rule(shop, f"-- message: x\n{LARGE}")
    # A process inherits the peak memory of its parent: here one larger than the limit of the rule.
    code = f"""
from waterclock.operations.project_opening import open_project
from waterclock.operations.project_rules import check_project_rules
from pathlib import Path
print(check_project_rules(open_project(Path({str(shop.folder)!r}), None)).errors[0].why)
status = Path("/proc/self/status")
peak = int(status.read_text().partition("VmHWM:")[2].split()[0]) // 1024 if status.exists() else 0
print(peak < 700)
"""
    between = (
        f"large = b'x' * (5 << 27); import os; del large; os.execv({sys.executable!r}, ['python', '-c', {code!r}])"
    )
    done = subprocess.run([sys.executable, "-c", between], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.split("\n")[:2] == ["it needed more than 256 MB of memory", "True"], done.stderr


def test_many_places_are_cut_off(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_database, "MOST_ROWS", 2)
    found = findings(shop, "-- message: {name}\nSELECT name, place FROM columns ORDER BY name")
    assert [each.code for each in found] == ["E395"] * 3
    assert "more than 2 places" in found[-1].what


def test_rules_start_no_spark(shop: Shop) -> None:
    write_rule(shop, "-- message: {name}\nSELECT name, place FROM columns WHERE name = ''")
    code = f"""
import sys
from pathlib import Path
from waterclock.cli.views.check import check_project
print(check_project(Path({str(shop.folder)!r}), None).errors)
print([name for name in ("pyspark", "pyarrow") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split("\n")[:2] == ["()", "[]"]


@pytest.mark.parametrize(
    "call",
    [
        "printf('%.2147483647c', 'a')",
        "format('%5.*c', 2147483647, 'a')",
        "printf('%.*c', ' 2147483647', 'a')",
        "printf('%.*lc', CAST('2147483647' AS BLOB), 'a')",
        "printf(CAST('%!.2147483647c' AS BLOB), 'a')",
        "printf('%.*c', -2e9, 'a')",
    ],
)
def test_a_character_is_not_repeated_beyond_the_time_of_a_rule(shop: Shop, call: str) -> None:
    began = time.thread_time()
    error = only(shop, f"SELECT {call} AS place")
    assert (error.code, time.thread_time() - began < rule_database.SECONDS) == ("E396", True)


def test_formats_are_those_of_sqlite(shop: Shop) -> None:
    sql = (
        "SELECT format('%05d|%-3s|%.2f', 7, 'a', 1.5) || printf('|%.*c', 3, 'x') || ifnull(printf(NULL), '-') AS place"
    )
    assert only(shop, sql).where == "00007|a  |1.50|xxx-"


def test_the_place_of_a_syntax_error_is_found_in_few_steps(shop: Shop) -> None:
    values = ",".join(["(1)"] * 20_000)
    began = time.thread_time()
    error = only(shop, f"SELECT {values} )")
    assert time.thread_time() - began < rule_database.SECONDS
    assert (error.code, error.what) == ("E396", "syntax error near )")
    assert error.where is not None
    assert error.where.endswith(f":2:{len('SELECT ') + len(values) + 2}")
