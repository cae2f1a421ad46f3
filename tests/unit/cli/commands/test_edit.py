"""`waterclock edit`: rows are shown, changed with a reason, and restored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from waterclock.cli.app import app

FLOW = """
CREATE CONNECTION forms TYPE forms;
CREATE CONNECTION shop TYPE sqlite;
COLLECT raw.orders (id KEY) FROM shop.orders EVERY DAY;
COLLECT mdm.lands (land KEY, region KEY, name NOT NULL, people INT) FROM forms.lands EVERY DAY;
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW)
    (tmp_path / "waterclock.toml").write_text(
        '[project]\nname = "p"\n[env.dev]\nstorage = ".dev"\nconnections.shop = { path = "shop.db" }\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edit(*words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, ["edit", *words, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_a_row_is_added_changed_listed_and_deleted(folder: Path) -> None:
    assert edit("set", "mdm.lands", "DE", "BY", "name=Bavaria", "people=13", "--because", "new")["changed"] == 1
    edit("set", "mdm.lands", "DE", "BE", "name=Berlin", "--because", "new")
    assert edit("set", "mdm.lands", "DE", "BE", "name=Berlin", "--because", "again")["batch"] is None
    edit("set", "mdm.lands", "DE", "BY", "people=", "--because", "unknown")
    rows = edit("list", "mdm.lands")["rows"]
    assert [row["key"] for row in rows] == ['["DE","BE"]', '["DE","BY"]']
    assert rows[1]["values"] == {"land": "DE", "region": "BY", "name": "Bavaria"}
    assert [row["key"] for row in edit("list", "mdm.lands", "name=Berlin")["rows"]] == ['["DE","BE"]']
    edit("delete", "mdm.lands", "DE", "BE", "--because", "wrong", "--yes")
    changes = edit("history", "mdm.lands", "DE", "BE")["changes"]
    assert [(it["why"], it["after"] is None) for it in changes] == [("wrong", True), ("new", False)]
    edit("undo", "mdm.lands", str(changes[0]["batch"]), "--because", "it was right", "--yes")
    assert len(edit("list", "mdm.lands")["rows"]) == 2
    assert (folder / ".dev" / "forms.sqlite").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("set", "mdm.lands", "DE", "BY", "name=Bavaria"), "E903"),
        (("set", "mdm.lands", "DE", "name=Bavaria", "--because", "x"), "E891"),
        (("set", "mdm.lands", "DE", "BY", "nam=Bavaria", "--because", "x"), "E891"),
        (("set", "mdm.lands", "DE", "BY", "--because", "x"), "E891"),
        (("set", "mdm.lands", "DE", "BY", "name=B", "people=many", "--because", "x"), "E891"),
        (("delete", "mdm.lands", "DE", "XX", "--because", "x", "--yes"), "E894"),
        (("history", "mdm.lands", "DE", "XX"), "E894"),
        (("undo", "mdm.lands", "77", "--because", "x", "--yes"), "E894"),
        (("undo", "mdm.lands", "one", "--because", "x", "--yes"), "E891"),
        (("import", "mdm.lands", "none.csv", "--because", "x", "--yes"), "E891"),
        (("list", "raw.orders"), "E894"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_an_invalid_edit_command_is_refused_and_changes_no_rows(words: tuple[str, ...], error: str) -> None:
    assert edit(*words, code=1)["error"]["code"] == error
    assert edit("list", "mdm.lands")["rows"] == []


def test_an_import_is_reviewed_and_one_batch(folder: Path) -> None:
    (folder / "lands.csv").write_text("land,region,name,people,area\nDE,BY,Bavaria,13,70\nDE,BE,Berlin,3,1\n")
    answer = edit("import", "mdm.lands", "lands.csv", "--because", "list", "--yes")
    assert answer["review"] == {"new": 2, "changed": 0, "same": 0, "invalid": [], "ignored": ["area"]}
    assert answer["changed"] == 2
    assert edit("import", "mdm.lands", "lands.csv", "--because", "list", "--yes")["batch"] is None
    CliRunner().invoke(app, ["edit", "export", "mdm.lands", "out.csv"])
    assert (folder / "out.csv").read_text() == "land,region,name,people\nDE,BE,Berlin,3\nDE,BY,Bavaria,13\n"


def test_an_import_that_is_refused_names_its_file_and_the_option_for_decimal_commas(folder: Path) -> None:
    (folder / "flows" / "b.dpl").write_text("COLLECT mdm.n (id KEY, price DECIMAL(9,2)) FROM forms.n EVERY DAY;")
    (folder / "n.csv").write_text("id;price\n1;2,50\n")
    error = edit("import", "mdm.n", "n.csv", "--because", "x", "--yes", code=1)["error"]
    assert (
        error["fix"] == "correct these rows in the file, or read decimal commas by --decimal-comma; nothing was saved"
    )
    assert edit("import", "mdm.n", "n.csv", "--decimal-comma", "--because", "x", "--yes")["changed"] == 1
    (folder / "n.csv").write_text("article;price;id;id\n1;2;3;4\n")
    error = edit("import", "mdm.n", "n.csv", "--because", "x", "--yes", code=1)["error"]
    assert (error["code"], error["where"]) == ("E891", "n.csv")


def test_a_workbook_is_exported_and_imported_with_the_point_of_its_numbers(folder: Path) -> None:
    edit("set", "mdm.lands", "DE", "BY", "name==1+1", "people=13", "--because", "new")
    assert CliRunner().invoke(app, ["edit", "export", "mdm.lands", "out.xlsx"]).exit_code == 0
    answer = edit("import", "mdm.lands", "out.xlsx", "--decimal-comma", "--because", "same", "--yes")
    assert answer["review"] == {"new": 0, "changed": 0, "same": 1, "invalid": [], "ignored": []}
    (folder / "flows" / "b.dpl").write_text("COLLECT mdm.n (id KEY, price DECIMAL(9,3)) FROM forms.n EVERY DAY;")
    edit("set", "mdm.n", "1", "price=1.234", "--because", "new")
    CliRunner().invoke(app, ["edit", "export", "mdm.n", "n.xlsx"])
    answer = edit("import", "mdm.n", "n.xlsx", "--decimal-comma", "--because", "same", "--yes")
    assert answer["review"]["same"] == 1
    (folder / "old.csv").write_bytes("land,region,name\nDE,BY,Käse\n".encode("cp1252"))
    error = edit("import", "mdm.lands", "old.csv", "--because", "x", "--yes", code=1)["error"]
    assert error["what"] == "old.csv is not UTF-8"


@pytest.mark.parametrize("path", ["out.csv", "missing/out.csv"])
def test_a_file_that_cannot_be_written_is_an_error_with_a_fix(folder: Path, path: str) -> None:
    (folder / "out.csv").write_text("mine")
    done = CliRunner().invoke(app, ["edit", "export", "mdm.lands", path])
    assert done.exit_code == 1
    assert f"E891 {path} cannot be written" in done.output
    assert "fix  name a new file in a folder that exists" in done.output
    assert (folder / "out.csv").read_text() == "mine"


def test_values_of_rows_with_similar_keys_are_suggested_for_a_pending_row(folder: Path) -> None:
    from waterclock.connectors.forms.changes import Edit, Origin, apply
    from waterclock.flow.form_rights import FormRights
    from waterclock.operations.forms import open_form
    from waterclock.operations.project_opening import open_project

    edit("set", "mdm.lands", "DE", "Bavaria", "name=Bavaria", "--because", "new")
    form = open_form(open_project(folder, None), "mdm.lands")
    new = [Edit(("DE", "Bavarya"), {}, None)]
    apply(form.database, form.entity, by=FormRights("publish"), why="x", edits=new, origin=Origin.PUBLISH)
    [found] = edit("suggest", "mdm.lands", "DE", "Bavarya")["suggestions"]
    assert (found["values"], found["like"], found["rows"]) == ({"name": "Bavaria"}, '["DE","Bavaria"]', 1)
    assert edit("suggest", "mdm.lands", "DE", "Bavaria")["suggestions"] == []
    assert edit("suggest", "mdm.lands", "DE", "none", code=1)["error"]["code"] == "E894"
    shown = CliRunner().invoke(app, ["edit", "suggest", "mdm.lands", "DE", "Bavarya"]).stdout
    assert shown.startswith('name=Bavaria  like ["DE","Bavaria"], 89 %, 1 row')


@pytest.fixture
def guarded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    flow = FLOW.replace("FROM forms.lands", "FROM forms.lands OPTIONS (approval true)")
    (folder / "flows" / "a.dpl").write_text(flow)
    monkeypatch.setenv("LOGNAME", "ada")
    return monkeypatch


def test_a_change_waits_until_another_person_approves_it(guarded: pytest.MonkeyPatch) -> None:
    done = edit("set", "mdm.lands", "DE", "BY", "name=Bavaria", "--because", "new")
    assert (done["batch"], done["proposal"], done["changed"]) == (None, 1, 1)
    assert edit("list", "mdm.lands")["rows"] == []
    [proposal] = edit("proposals", "mdm.lands")["proposals"]
    assert (proposal["who"], proposal["why"], proposal["rows"], proposal["state"]) == ("ada", "new", 1, "open")
    assert edit("approve", "mdm.lands", "1", "--yes", code=1)["error"]["code"] == "E899"
    guarded.setenv("LOGNAME", "bob")
    assert edit("withdraw", "mdm.lands", "1", "--because", "x", "--yes", code=1)["error"]["code"] == "E899"
    assert edit("reject", "mdm.lands", "1", "--yes", code=1)["error"]["code"] == "E903"
    done = edit("approve", "mdm.lands", "1", "--yes")
    assert (done["batch"], done["proposal"], done["changed"]) == (1, 1, 1)
    [change] = edit("history", "mdm.lands", "DE", "BY")["changes"]
    assert (change["who"], change["approved_by"], change["proposal"]) == ("ada", "bob", 1)
    assert edit("reject", "mdm.lands", "1", "--because", "x", "--yes", code=1)["error"]["code"] == "E898"
    assert edit("proposals", "mdm.lands")["proposals"] == []
    assert edit("approve", "mdm.lands", "one", "--yes", code=1)["error"]["code"] == "E891"
    assert edit("approve", "mdm.lands", "7", "--yes", code=1)["error"]["code"] == "E894"


def test_a_rejected_and_a_withdrawn_proposal_change_nothing(guarded: pytest.MonkeyPatch) -> None:
    for number, name in ((1, "Bavaria"), (2, "Bayern")):
        edit("set", "mdm.lands", "DE", "BY", f"name={name}", "--because", "new")
        assert edit("proposals", "mdm.lands", str(number))["proposed"][0]["after"]["name"] == name
    assert edit("withdraw", "mdm.lands", "1", "--because", "wrong", "--yes")["proposals"][0]["state"] == "withdrawn"
    guarded.setenv("LOGNAME", "bob")
    [rejected] = edit("reject", "mdm.lands", "2", "--because", "no", "--yes")["proposals"]
    assert (rejected["state"], rejected["decided_by"], rejected["decided_why"]) == ("rejected", "bob", "no")
    shown = CliRunner().invoke(app, ["edit", "proposals", "mdm.lands", "2"]).stdout
    assert "rejected by bob: no" in shown
    assert "name: → Bayern" in shown
    assert edit("list", "mdm.lands")["rows"] == []


@pytest.mark.usefixtures("folder")
def test_a_wrong_number_of_keys_shows_the_values_that_were_taken_for_the_key() -> None:
    error = edit("set", "mdm.lands", "DE", "BY", "name", "--because", "x", code=1)["error"]
    assert error["why"] == "given: DE, BY, name"
    assert error["fix"] == "after the table, write one for each of land, region; write other values as column=value"
    assert edit("history", "mdm.lands", code=1)["error"]["why"] == "none is given"


def test_an_ignored_column_is_shown_with_the_nearest_name(folder: Path) -> None:
    (folder / "lands.csv").write_text("land,region,nam,area\nDE,BY,Bavaria,70\n")
    done = CliRunner().invoke(app, ["edit", "import", "mdm.lands", "lands.csv", "--because", "list", "--yes"])
    assert "ignored columns: nam (did you mean name?), area" in done.output
