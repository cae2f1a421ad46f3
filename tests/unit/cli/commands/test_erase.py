"""`waterclock erase` on a project without batches: its errors, its plan and its certificate; no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.keys import DECLARED, NEW, VARIABLES, derived
from tests.unit.cli.conftest import ask
from waterclock.batches.erasures import hash_of
from waterclock.engine.ledger_opening import ledger_url
from waterclock.faults import inject_faults
from waterclock.ledger.ledger import Ledger
from waterclock.operations.project_opening import open_project

FLOW = """
COLLECT raw.orders PARTITIONED (id BIGINT, buyer BIGINT SUBJECT customer, clerk STRING SUBJECT employee)
  FROM project.`data/*.csv` EVERY DAY START '2024-01-01' BY ARRIVAL TIME;
TRANSFORM marts.sold PARTITIONED AS SELECT buyer AS client FROM raw.orders;
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    declare(tmp_path, DECLARED + FLOW)
    return tmp_path


def declare(folder: Path, flow: str) -> None:
    (folder / "flows").mkdir(exist_ok=True)
    (folder / "waterclock.toml").write_text('[project]\nname = "shop"\n')
    (folder / "flows" / "all.dpl").write_text(flow)


def erase(folder: Path, *arguments: str) -> tuple[int, str]:
    """Return the exit code and the printed text."""
    done = ask("erase", *arguments, "--project", str(folder))
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (("custmer", "42"), ("E460", "did you mean customer?")),
        (("customer",), ("E462", "no persons are named")),
        (("customer", " "), ("E462", "a value is empty")),
        (("customer", "4x2"), ("E462", "a value of 3 characters is no integer")),
        (("customer", "42", "--keys", "pi"), ("E461", "did you mean pii?")),
        (("customer", "42", "--continue"), ("E463", "there is no unfinished erasure of exactly these persons")),
        (("customer", "--keys-from", "none.txt"), ("E462", "cannot be read")),
    ],
)
def test_a_wrong_request_is_refused_with_its_reason(
    folder: Path, arguments: tuple[str, ...], texts: tuple[str]
) -> None:
    code, output = erase(folder, *arguments, "--because", "asked", "--yes")
    assert code == 1
    assert all(text in output for text in texts), output
    assert not list(folder.rglob("*.certificate.*"))


def test_a_reason_and_a_key_are_needed(folder: Path) -> None:
    assert "E903" in erase(folder, "customer", "42", "--yes")[1]
    declare(folder, FLOW)
    code, output = erase(folder, "customer", "42", "--because", "asked", "--yes")
    assert (code, "E461" in output) == (1, True)
    assert "CREATE CONNECTION pii TYPE keys" in output


def test_a_dry_run_shows_the_columns_and_records_nothing(folder: Path) -> None:
    done = ask("erase", "customer", "42", "--dry-run", "--json", "--project", str(folder))
    answer = json.loads(done.stdout)
    assert {each["table"]: each["columns"] for each in answer["tables"]} == {
        "raw.orders": ["buyer"],
        "marts.sold": ["client"],
    }
    assert (answer["number"], answer["steps"], answer["persons"]) == (None, [], 1)
    with Ledger.open(ledger_url(open_project(folder, None))) as ledger:
        assert ledger.erasures.list() == []


def test_persons_without_rows_are_kept_out_of_later_batches_and_no_value_is_stored(folder: Path) -> None:
    values = folder / "keys.txt"
    values.write_text("0042\n700007\n")
    code, output = erase(folder, "customer", "--keys-from", str(values), "--because", "asked", "--yes")
    assert code == 0, output
    assert "erasure 1 is done" in output
    with Ledger.open(ledger_url(open_project(folder, None))) as ledger:
        [erasure] = ledger.erasures.list()
    key = derived(NEW, "hash")
    assert erasure.hashes == {hash_of(key, "customer", "42"), hash_of(key, "customer", "700007")}
    assert erasure.key == "pii/2026"
    certificate = json.loads((folder / ".waterclock/erasures/1.certificate.json").read_text())
    assert sorted(certificate["hashes"]) == sorted(erasure.hashes)
    for path in (folder / ".waterclock").rglob("*"):
        assert path.is_dir() or b"700007" not in path.read_bytes(), path


def test_a_killed_erasure_is_continued_with_the_same_persons_only(folder: Path) -> None:
    def strike(point: str) -> None:
        if point == "erase.begun":
            raise KeyboardInterrupt

    with inject_faults(strike):
        erase(folder, "customer", "42", "--because", "asked", "--yes")
    assert "erasure 1 of these persons is not finished" in erase(folder, "customer", "42", "--because", "x", "--yes")[1]
    assert "E463" in erase(folder, "customer", "42", "43", "--continue", "--yes")[1]
    code, output = erase(folder, "customer", "42", "--continue", "--yes")
    assert (code, "erasure 1 is done" in output) == (0, True), output
    assert erase(folder, "customer", "43", "--because", "asked", "--yes")[0] == 0


def test_a_branch_is_a_place_that_is_left_until_it_is_deleted(folder: Path) -> None:
    assert erase(folder, "customer", "42", "--because", "asked", "--yes")[0] == 0
    created = ask("branch", "create", "pr-1", "--project", str(folder))
    assert created.exit_code == 0, created.output
    answer = json.loads(ask("erase", "customer", "43", "--dry-run", "--json", "--project", str(folder)).stdout)
    assert [(each["place"], each["fix"]) for each in answer["left"]] == [
        ("branch pr-1", "`waterclock branch delete pr-1`")
    ]
    code, output = erase(folder, "customer", "43", "--because", "asked", "--yes")
    assert (code, "branch pr-1" in output) == (1, True)
    [certificate] = [path for path in folder.rglob("*.certificate.txt") if "branch pr-1" in path.read_text()]
    assert "waterclock branch delete pr-1" in certificate.read_text()
    assert ask("branch", "delete", "pr-1", "--yes", "--project", str(folder)).exit_code == 0
    code, output = erase(folder, "customer", "43", "--continue", "--yes")
    assert code == 0, output
