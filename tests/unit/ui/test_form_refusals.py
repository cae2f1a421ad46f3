"""Changes that a grant refuses come back with what was entered and the reason. Undo is offered where it works.

The tests post what a browser would: the fields of the page that have a name, as they were changed.
"""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ui.test_form_proposals import Desk
from tests.unit.ui.test_forms import TOML, text_of
from waterclock.connectors.forms.changes import Edit, Origin, apply
from waterclock.connectors.forms.history import find_row, list_changes
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project
from waterclock.permissions.users_and_roles import Right
from waterclock.ui.forms import paste_content

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.prices (sku KEY, land, price DECIMAL(9,2), note) FROM forms.prices EVERY DAY START '2020-01-01';
"""
OF_DE = FLOW + "GRANT EDIT ON mdm.prices TO (anna) WHERE land = 'DE' AND NOT price > 100;\n"
USERS = '[roles]\nall = ["look", "edit"]\n' + "".join(f'[users.{name}]\nroles = ["all"]\n' for name in ("anna", "ben"))
LIST = "/forms/mdm.prices"
ROW, PASTE, UNDO = f"{LIST}/row", f"{LIST}/paste", f"{LIST}/undo"
EDITOR = [Right.LOOK, Right.EDIT]
ROWS = {"D1": {"land": "DE", "price": "1.00", "note": "first"}, "F1": {"land": "FR", "price": "1.00"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML + USERS)
    return tmp_path


def declare(folder: Path, flow: str) -> None:
    (folder / "flows" / "a.dpl").write_text(flow)


def opened(folder: Path, flow: str) -> OpenedForm:
    declare(folder, flow)
    form = open_form(open_project(folder, None), "mdm.prices")
    edits = [Edit((key,), values, None) for key, values in ROWS.items()]
    apply(form.database, form.entity, by=FormRights("owner"), why="first", edits=edits)
    return form


def change(form: OpenedForm, key: str, values: dict[str, str | None] | None, who: str = "owner") -> int:
    """Change a row by a person who may do all, and return the number of the batch."""
    row = find_row(form.database, form.entity, (key,))
    edit = Edit((key,), values, None if row is None else row.version)
    done = apply(form.database, form.entity, by=FormRights(who), why="change", edits=[edit])
    assert done.batch is not None
    return done.batch


def content(form: OpenedForm, key: str = "D1") -> dict[str, Any]:
    row = find_row(form.database, form.entity, (key,))
    return {} if row is None else dict(row.content)


class Page(HTMLParser):
    """The fields and messages of a page: what a browser posts, what each field shows, and the messages beside it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.posts: dict[str, str] = {}
        self.shown: dict[str, str] = {}
        self.problems: dict[str, str] = {}
        self.alert = ""
        self._label: str | None = None
        self._labels: dict[str, str] = {}
        self._described: dict[str, str] = {}
        self._field: dict[str, str] | None = None
        self._to: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "label":
            self._label = found["for"]
            self._labels[self._label] = ""
        if tag in {"input", "textarea", "select"} and "batch" not in found.get("name", ""):
            self._field = found
            if tag == "input":
                self._show(found.get("value", ""))
            for each in found.get("aria-describedby", "").split():
                self._described[each] = found.get("id", "")
        if tag == "option" and "selected" in found:
            self._to = "option"
        if tag == "p":
            self._to = found.get("id") or ("alert" if found.get("role") == "alert" else None)

    def handle_endtag(self, tag: str) -> None:
        if tag == "label":
            self._label = None
        if tag in {"textarea", "select"}:
            self._field = None
        if tag == "p":
            self._to = None

    def handle_data(self, data: str) -> None:
        if self._label is not None:
            self._labels[self._label] += data.removesuffix(" (required)")
        elif self._to == "alert":
            self.alert += data
        elif self._to == "option" or (self._field is not None and "value" not in self._field):
            self._show(data.removeprefix("\n"))
            self._to = None
        elif self._to in self._described:
            name = self._labels[self._described[self._to]]
            self.problems[name] = data.removeprefix("✕ ")

    def _show(self, text: str) -> None:
        found = self._field or {}
        if "name" in found and "disabled" not in found and found["name"] not in self.posts:
            self.posts[found["name"]] = text
        if found.get("id") in self._labels:
            self.shown[self._labels[found["id"]]] = text


def open_row(desk: Desk, name: str, key: str) -> Page:
    status, page = desk.ask(name, EDITOR, "GET", f"{ROW}?key={key}")
    assert status == 200
    return Page(page)


def save(desk: Desk, name: str, page: Page, **entered: str) -> tuple[int, Page]:
    sent = page.posts | {f"f.{column}": text for column, text in entered.items()} | {"why": "a test"}
    status, answer = desk.ask(name, EDITOR, "POST", ROW, **sent)
    return status, Page(answer)


def test_a_refused_row_returns_the_form_with_the_entered_values_and_the_reason(folder: Path) -> None:
    form = opened(folder, OF_DE)
    desk = Desk(folder)
    page = open_row(desk, "anna", "D1")
    assert set(page.posts) == {"key", "version", "why", "f.land", "f.price", "f.note"}
    status, page = save(desk, "anna", page, land="FR", note="typed <b>\nin two lines")
    assert status == 403
    assert (
        page.shown | {"price": "1.00", "land": "FR", "note": "typed <b>\nin two lines", "Why": "a test"} == page.shown
    )
    assert page.problems["land"] == "no GRANT EDIT has the row as it would be"
    assert page.problems["note"] == "no GRANT EDIT has the row as it would be"
    assert "price" not in page.problems
    assert page.alert == (
        "anna may not edit D1 of mdm.prices: no GRANT EDIT has the row as it would be. Nothing was saved. "
        "The form below still has your values."
    )
    assert content(form) == {"sku": "D1"} | ROWS["D1"]
    assert save(desk, "anna", page, land="DE")[0] == 303  # the same form is corrected and saved
    assert content(form)["note"] == "typed <b>\nin two lines"


def test_a_new_row_that_is_refused_keeps_its_values(folder: Path) -> None:
    form = opened(folder, OF_DE)
    desk = Desk(folder)
    page = Page(desk.ask("anna", EDITOR, "GET", ROW)[1])
    status, page = save(desk, "anna", page, sku="X1", land="FR", price="7", note="mine")
    assert (status, content(form, "X1")) == (403, {})
    assert [page.shown[name] for name in ("sku", "land", "price", "note")] == ["X1", "FR", "7", "mine"]
    assert set(page.problems) == {"sku", "land", "price", "note"}
    assert save(desk, "anna", page, land="DE")[0] == 303


def test_a_grant_that_is_revoked_while_a_form_is_open_loses_no_value(folder: Path) -> None:
    form = opened(folder, FLOW + "GRANT EDIT ON mdm.prices TO (anna);")
    desk = Desk(folder)
    page = open_row(desk, "anna", "D1")
    declare(folder, FLOW + "GRANT EDIT (price) ON mdm.prices TO (anna);")
    status, page = save(desk, "anna", page, price="2", note="typed")
    assert status == 403
    assert (page.shown["price"], page.shown["note"], page.shown["land"]) == ("2", "typed", "DE")
    assert page.problems == {"note": "you may not change it"}
    assert "f.note" not in page.posts
    assert content(form)["price"] == "1.00"
    assert save(desk, "anna", page)[0] == 303  # what remains is saved, and the note was refused in words
    assert (content(form)["price"], content(form)["note"]) == ("2.00", "first")


def test_a_form_that_nobody_granted_since_keeps_the_values_and_cannot_be_saved(folder: Path) -> None:
    form = opened(folder, OF_DE)
    desk = Desk(folder)
    page, deleting = open_row(desk, "anna", "D1"), open_row(desk, "anna", "D1")
    declare(folder, FLOW + "GRANT EDIT ON mdm.prices TO (ben);")
    status, page = save(desk, "anna", page, note="typed", price="5")
    assert (status, page.shown["note"], page.shown["price"]) == (403, "typed", "5")
    assert page.problems["note"] == "no GRANT EDIT of the form is to anna or to one of their roles"
    assert not any(name.startswith("f.") for name in page.posts)
    deleting.posts["do"] = "delete"
    status, page = save(desk, "anna", deleting, note="typed too")
    assert (status, page.shown["note"]) == (403, "typed too")
    assert "anna may not edit mdm.prices" in page.alert
    assert content(form) == {"sku": "D1"} | ROWS["D1"]


def test_a_column_that_the_form_lost_is_named_with_what_was_typed(folder: Path) -> None:
    form = opened(folder, FLOW)
    desk = Desk(folder)
    page = open_row(desk, "anna", "D1")
    declare(folder, FLOW.replace(", note", ""))
    status, page = save(desk, "anna", page, note="typed", price="5")
    assert (status, page.shown["note"], page.shown["price"]) == (403, "typed", "5")
    assert page.problems == {"note": "the form has no such column now"}
    assert save(desk, "anna", page)[0] == 303
    assert (content(form)["price"], content(form)["note"]) == ("5.00", "first")


def test_a_value_that_cannot_be_stored_returns_the_form_too(folder: Path) -> None:
    form = opened(folder, FLOW.replace("land,", "land NOT NULL,") + "GRANT EDIT (price) ON mdm.prices TO (anna);")
    waiting = [Edit(("W1",), {}, None)]
    apply(form.database, form.entity, by=FormRights("owner"), why="new", edits=waiting, origin=Origin.PUBLISH)
    desk = Desk(folder)
    status, page = save(desk, "anna", open_row(desk, "anna", "W1"), price="5")  # and the land is missing
    assert (status, page.shown["price"], page.shown["Why"]) == (422, "5", "a test")
    assert page.alert == (
        "land of W1 cannot be saved: a value is required. Nothing was saved. The form below still has your values."
    )


HIDDEN = "GRANT SELECT (sku, land, price) ON mdm.prices TO (anna);\n"


def test_a_column_that_the_page_did_not_show_is_not_emptied_by_saving_it(folder: Path) -> None:
    form = opened(folder, FLOW + HIDDEN + "GRANT SELECT ON mdm.prices TO (anna) WHERE land = 'AT';\n")
    desk = Desk(folder)
    page = open_row(desk, "anna", "D1")
    assert "f.note" not in page.posts  # the note of this row is not shown
    declare(folder, FLOW)
    assert save(desk, "anna", page, price="2")[0] == 303
    assert content(form) == {"sku": "D1", "land": "DE", "price": "2.00", "note": "first"}


def test_a_column_that_was_read_only_is_not_written_by_a_page_from_before(folder: Path) -> None:
    form = opened(folder, FLOW + "GRANT EDIT (price) ON mdm.prices TO (anna);")
    desk = Desk(folder)
    page = open_row(desk, "anna", "D1")
    assert {name for name in page.posts if name.startswith("f.")} == {"f.price"}
    assert page.shown["note"] == "first"
    declare(folder, FLOW)
    assert save(desk, "anna", page, price="2")[0] == 303
    assert content(form) == {"sku": "D1", "land": "DE", "price": "2.00", "note": "first"}


def test_what_a_form_says_of_its_fields_gives_no_right_and_shows_no_value(folder: Path) -> None:
    form = opened(folder, FLOW + HIDDEN + "GRANT SELECT ON mdm.prices TO (anna) WHERE land = 'AT';\n")
    desk = Desk(folder)
    answers = set()
    for guess in ("first", "wrong"):
        page = open_row(desk, "anna", "D1")
        status, answer = save(desk, "anna", page, note=guess, price="2")
        answers.add((status, answer.alert, answer.problems["note"], answer.shown["note"].replace(guess, "GUESS")))
    assert answers == {(403, "1 field needs a correction. Nothing was saved.", "you may not change it", "GUESS")}
    assert content(form) == {"sku": "D1"} | ROWS["D1"]


def test_a_paste_marks_each_cell_that_is_not_granted_and_keeps_the_text(folder: Path) -> None:
    grants = "GRANT EDIT (price, note) ON mdm.prices TO (anna) WHERE land = 'DE';"
    form = opened(folder, FLOW + grants)
    desk = Desk(folder)
    first = text_of(desk.ask("anna", EDITOR, "GET", PASTE)[1])
    assert "You may not change land." in first
    assert "You may not add rows." in first
    text = "sku\tland\tprice\tnote\nD1\tAT\t2\t\nF1\t\t\tmine\nX1\tDE\t1\t\n"
    status, page = desk.ask("anna", EDITOR, "POST", PASTE, text=text, do="review")
    assert status == 200
    assert text in page
    assert "3 invalid" in text_of(page)
    assert re.findall(r'<th scope="col">([^<]*)', page.partition("Rows that change")[2]) == [
        "Line", "Effect", "sku", "land ", "price", "note",
    ]  # fmt: skip
    assert 'land <span class="soft">read only</span>' in page
    rows = [re.findall(r"<td>(.*?)</td>", row)[2:] for row in re.findall(r"<tr><td>\d.*?</tr>", page)]
    marks = [[re.findall(r"✕ (.*?)</span>", cell) for cell in row] for row in rows]
    assert marks == [
        [[], ["no GRANT EDIT names land"], ["no GRANT EDIT has the row as it would be"], []],
        [[], [], [], ["no GRANT EDIT has the row as it is"]],
        [["no GRANT EDIT names sku"], ["no GRANT EDIT names land"], [], []],
    ]
    assert re.search(r'value="apply" disabled', page)
    digest = re.search(r'name="digest" value="(\w+)"', page)
    assert digest is not None
    for _ in range(2):  # a browser posts no disabled button, and a person may
        status, page = desk.ask("anna", EDITOR, "POST", PASTE, text=text, do="apply", digest=digest[1], why="list")
        assert (status, text in page, 'value="list"' in page) == (403, True, True)
    assert content(form) == {"sku": "D1"} | ROWS["D1"]
    text = "sku\tland\tprice\nD1\tDE\t2\nF1\tFR\t1\n"  # values that stay are no changes
    page = desk.ask("anna", EDITOR, "POST", PASTE, text=text, do="review")[1]
    assert "0 new, 1 changed, 1 same, 0 invalid" in text_of(page)


def test_a_paste_that_is_refused_while_it_is_saved_keeps_the_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = opened(folder, OF_DE)
    desk = Desk(folder)
    text = "sku\tprice\nD1\t2\n"
    digest = re.search(r'name="digest" value="(\w+)"', desk.ask("anna", EDITOR, "POST", PASTE, text=text)[1])
    assert digest is not None

    def change_before(*given: Any, **named: Any) -> Any:
        monkeypatch.undo()
        change(form, "D1", {"land": "FR"})
        return apply(*given, **named)

    monkeypatch.setattr(paste_content, "apply", change_before)
    status, page = desk.ask("anna", EDITOR, "POST", PASTE, text=text, do="apply", digest=digest[1], why="list")
    assert (status, text in page) == (409, True)
    assert "no GRANT EDIT has the row as it is" in page
    assert content(form)["price"] == "1.00"


def test_a_pasted_text_that_cannot_be_read_is_kept(folder: Path) -> None:
    opened(folder, OF_DE)
    desk = Desk(folder)
    text = "price\tland\n1\tDE\n"
    status, page = desk.ask("anna", EDITOR, "POST", PASTE, text=text, do="review")
    assert (status, text in page) == (422, True)
    assert "its header has price, land, and the KEY is sku" in page


def undo_buttons(desk: Desk, name: str, key: str) -> list[int]:
    page = desk.ask(name, EDITOR, "GET", f"{ROW}?key={key}")[1]
    return [int(number) for number in re.findall(r"Undo batch (\d+)</button>", page)]


def test_undo_is_offered_for_the_newest_change_only_and_where_the_rights_allow_it(folder: Path) -> None:
    form = opened(folder, OF_DE)
    desk = Desk(folder)
    assert undo_buttons(desk, "anna", "D1") == []  # the first batch has a row of FR as well
    change(form, "D1", {"price": "2.00"})
    last = change(form, "D1", {"price": "3.00"})
    assert undo_buttons(desk, "anna", "D1") == [last]  # an earlier one would be a conflict
    assert undo_buttons(desk, "ben", "D1") == []
    high = change(form, "D1", {"price": "200.00"})
    change(form, "D1", {"price": "4.00"})
    assert undo_buttons(desk, "anna", "D1") == []  # the earlier price is not granted
    status, page = desk.ask("anna", EDITOR, "POST", UNDO, key="D1", batch=str(high + 1), why="undo")
    assert (status, "anna may not edit D1" in Page(page).alert) == (403, True)
    status, page = desk.ask("anna", EDITOR, "POST", UNDO, key="D1", batch=str(last), why="undo")
    assert (status, "D1 of mdm.prices changed since it was read" in Page(page).alert) == (409, True)
    assert content(form)["price"] == "4.00"
    assert len(list_changes(form.database, form.entity, ("D1",))) == 5


def test_undo_of_added_and_deleted_rows_is_offered_where_it_works(folder: Path) -> None:
    form = opened(folder, OF_DE)
    desk = Desk(folder)
    added = change(form, "D2", {"land": "DE", "price": "1.00"})
    assert undo_buttons(desk, "anna", "D2") == [added]
    change(form, "D2", None)
    change(form, "D2", {"land": "DE", "price": "1.00", "note": "again"})
    gone = change(form, "D2", None)
    assert undo_buttons(desk, "anna", "D2") == [gone]
    assert desk.ask("anna", EDITOR, "POST", UNDO, key="D2", batch=str(gone), why="undo")[0] == 303
    assert content(form, "D2") == {"sku": "D2", "land": "DE", "price": "1.00", "note": "again"}
    change(form, "F2", {"land": "FR"})
    change(form, "F2", None)
    assert undo_buttons(desk, "anna", "F2") == []


@pytest.mark.slow
def test_undo_is_offered_exactly_where_it_is_accepted(folder: Path) -> None:
    """Random changes of three rows in batches: each offer is accepted, and a batch that is not offered is refused."""
    form = opened(folder, OF_DE)
    desk, dice = Desk(folder), random.Random(44)
    anna = open_form(open_project(folder, None), "mdm.prices").rights
    assert anna.may_edit
    accepted = refused = 0
    for _ in range(25):
        edits = []
        for key in dice.sample(["D1", "F1", "X1"], dice.choice([1, 1, 2])):
            row = find_row(form.database, form.entity, (key,))
            values = {"land": dice.choice(["DE", "DE", "FR"]), "price": dice.choice(["1.00", "2.00", "200.00"])}
            deletes = row is not None and dice.random() < 0.15
            edits.append(Edit((key,), None if deletes else values, None if row is None else row.version))
        apply(form.database, form.entity, by=FormRights("owner"), why="random", edits=edits)
        for key in ("D1", "F1", "X1"):
            changes = list_changes(form.database, form.entity, (key,))
            offered = undo_buttons(desk, "anna", key) if changes else []
            assert len(offered) < 2
            if offered and dice.random() < 0.3:
                before = content(form, key)
                status, _ = desk.ask("anna", EDITOR, "POST", UNDO, key=key, batch=str(offered[0]), why="undo")
                assert (status, content(form, key) != before) == (303, True)
                accepted += 1
            elif changes and not offered:
                status, _ = desk.ask("anna", EDITOR, "POST", UNDO, key=key, batch=str(changes[0].batch), why="undo")
                assert status in {403, 409}
                refused += 1
    assert min(accepted, refused) > 3
