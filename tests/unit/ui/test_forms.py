"""The pages of forms: lists, rows with messages, conflicts, history, pasted rows, and who may change them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from tests.pages import TOKEN, client_of
from tests.security.people import Pages
from waterclock.connectors.forms.changes import Edit, Origin, apply
from waterclock.connectors.forms.history import find_row, list_changes
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project
from waterclock.permissions.users_and_roles import Right
from waterclock.ui.forms import content as form_content
from waterclock.ui.live_project import LiveProject

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.product_map (
  supplier_sku KEY, sku NOT NULL COMMENT 'our article', kind EXPECT (kind IN ('raw', 'finished')) AS kinds,
  pack_size INT EXPECT (pack_size IS NULL OR pack_size > 0) AS positive
    EXPECT (pack_size IS NULL OR pack_size < 1e6) AS few, remark) FROM forms.product_map EVERY DAY START '2020-01-01';
"""
TOML = '[project]\nname = "p"\n[env.dev]\nstorage = ".dev"\n'
LIST = "/forms/mdm.product_map"
ROW = f"{LIST}/row"
HERE = {"Origin": "http://localhost"}
VALUES = {"f.supplier_sku": "S1", "f.sku": "A", "f.kind": "raw", "f.pack_size": "2", "f.remark": "", "why": "new"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW)
    (tmp_path / "waterclock.toml").write_text(TOML)
    return tmp_path


@pytest.fixture
def client(folder: Path) -> TestClient:
    made = client_of(LiveProject(folder))
    made.headers["Origin"] = "http://localhost"
    made.follow_redirects = False
    return made


@pytest.fixture
def form(folder: Path) -> OpenedForm:
    return open_form(open_project(folder, None), "mdm.product_map")


def post(client: TestClient, address: str = ROW, status: int = 303, **values: Any) -> str:
    sent = {name.replace("__", "."): value for name, value in values.items()}
    answer = client.post(address, data=sent)
    assert answer.status_code == status, answer.text
    return answer.text


def content(form: OpenedForm, key: str = "S1") -> Any:
    row = find_row(form.database, form.entity, (key,))
    return None if row is None else dict(row.content)


def version(form: OpenedForm, key: str = "S1") -> str:
    row = find_row(form.database, form.entity, (key,))
    return "" if row is None else str(row.version)


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_a_row_is_added_and_listed_with_its_history(client: TestClient, form: OpenedForm) -> None:
    client.post(ROW, data=VALUES)
    assert content(form) == {"supplier_sku": "S1", "sku": "A", "kind": "raw", "pack_size": "2"}
    assert "S1" in client.get(LIST).text
    page = client.get(f"{ROW}?key=S1").text
    assert 'name="version" value="1"' in page
    assert "our article" in page
    assert "Rule positive: pack_size IS NULL OR pack_size &gt; 0." in page
    assert "Checked by the next run: few." in page
    assert "new" in text_of(page.partition("History")[2])


def test_numbers_are_aligned_and_a_key_that_cannot_change_says_so(client: TestClient) -> None:
    fixed = "It identifies the row, and cannot change."
    assert fixed not in client.get(ROW).text  # of a new row, the KEY is entered
    client.post(ROW, data=VALUES)
    page = client.get(LIST).text
    assert re.findall(r'<t[hd][^>]* class="r"[^>]*>(?:<a[^>]*>)?([^<]*)', page) == ["pack_size", "2"]
    assert client.get(f"{ROW}?key=S1").text.count(fixed) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"f.sku": ""}, "a value is required"),
        ({"f.pack_size": "many"}, "it is not a number"),
        ({"f.kind": "other"}, "it is none of raw, finished"),
        ({"f.pack_size": "-2"}, "it breaks the rule positive: pack_size IS NULL OR pack_size &gt; 0"),
        ({"f.supplier_sku": " "}, "a value is required"),
        ({"why": " "}, "state why the row changes"),
    ],
)
def test_an_invalid_field_returns_the_form_with_the_entered_values(
    client: TestClient, form: OpenedForm, changed: dict[str, str], message: str
) -> None:
    answer = client.post(ROW, data=VALUES | {"f.remark": "typed <b>"} | changed)
    assert answer.status_code == 422
    assert message in answer.text
    assert "typed &lt;b&gt;" in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert content(form) is None


def test_the_second_of_two_editors_sees_all_three_versions_and_decides(client: TestClient, form: OpenedForm) -> None:
    client.post(ROW, data=VALUES)
    seen = version(form)
    post(client, key="S1", version=seen, f__sku="B", f__kind="raw", why="first")
    page = post(client, status=409, key="S1", version=seen, f__sku="C", f__kind="finished", why="second")
    assert content(form)["sku"] == "B"
    row = re.search(r'<th scope="row">≠ sku</th>(.*?)</tr>', page)
    assert row is not None
    assert re.findall(r"<td>(.*?)</td>", row[1]) == ["A", "B", "C"]
    assert "saved this row since you began: first" in page
    newest = re.search(r'name="version" value="(\d+)"', page)
    assert newest is not None
    assert newest[1] == version(form)
    post(client, key="S1", version=newest[1], f__sku="C", f__kind="finished", why="second")
    assert content(form)["sku"] == "C"


def test_a_row_that_was_deleted_meanwhile_is_a_conflict_and_saving_again_adds_it(
    client: TestClient, form: OpenedForm
) -> None:
    client.post(ROW, data=VALUES)
    seen = version(form)
    post(client, key="S1", version=seen, do="delete", why="wrong")
    page = post(client, status=409, key="S1", version=seen, f__sku="C", f__kind="raw", why="second")
    assert "deleted this row since you began" in page
    post(client, key="S1", version="", f__sku="C", f__kind="raw", why="second")
    assert content(form)["sku"] == "C"


def test_a_new_row_whose_key_is_there_already_is_a_conflict(client: TestClient, form: OpenedForm) -> None:
    client.post(ROW, data=VALUES)
    page = post(client, status=409, f__supplier_sku="S1", f__sku="Z", f__kind="raw", why="again")
    assert "S1 exists already. Nothing of yours was saved. Save replaces all its values" in page
    assert 'href="/forms/mdm.product_map/row?key=S1">open the row<' in page
    assert "since you began" not in page
    assert content(form)["sku"] == "A"


def test_a_batch_is_undone_from_the_history(client: TestClient, form: OpenedForm) -> None:
    client.post(ROW, data=VALUES)
    post(client, key="S1", version=version(form), f__sku="B", f__kind="raw", f__pack_size="2", why="change")
    batch = list_changes(form.database, form.entity, ("S1",))[0].batch
    post(client, f"{LIST}/undo", key="S1", batch=str(batch), why="undo")
    assert content(form)["sku"] == "A"
    post(client, f"{LIST}/undo", key="S1", batch=str(batch), why="again")  # changes nothing
    assert len(list_changes(form.database, form.entity, ("S1",))) == 3
    post(client, key="S1", version=version(form), f__sku="Z", f__kind="raw", f__pack_size="2", why="later")
    post(client, f"{LIST}/undo", 409, key="S1", batch=str(batch), why="undo")
    post(client, f"{LIST}/undo", 404, key="S1", batch="99", why="undo")


def test_the_history_of_a_value_has_its_changes_alone(client: TestClient, form: OpenedForm) -> None:
    client.post(ROW, data=VALUES)
    post(client, key="S1", version=version(form), f__sku="B", f__kind="raw", f__pack_size="2", why="to B")
    post(client, key="S1", version=version(form), f__sku="B", f__kind="finished", f__pack_size="2", why="kind alone")
    history = client.get(f"{ROW}?key=S1").text.partition('id="history"')[2]
    links = re.findall(r'<a href="([^"]+)" title="The history of this value">(\w+)</a>', history)
    address = {name: address for address, name in links}["sku"].replace("&amp;", "&")
    page = text_of(client.get(address).text.partition('id="history"')[2])
    assert "History of sku" in page
    assert "to B sku : A → B" in page
    assert "new sku : → A" in page
    assert "kind alone" not in page
    assert "pack_size" not in page
    assert "kind alone" in client.get(f"{ROW}?key=S1&of=nothing").text


def test_pasted_rows_are_reviewed_and_applied_once(client: TestClient, form: OpenedForm) -> None:
    client.post(ROW, data=VALUES)
    paste, text = f"{LIST}/paste", "supplier_sku\tsku\tkind\nS1\tA\traw\nS2\tB\traw\n"
    page = post(client, paste, 200, text=text, do="review")
    assert "1 new" in page
    assert content(form, "S2") is None
    digest = re.search(r'name="digest" value="(\w+)"', page)
    assert digest is not None
    post(client, paste, 422, text=text, do="apply", digest=digest[1], why="")
    post(client, paste, 409, text=text.replace("B", "C"), do="apply", digest=digest[1], why="list")
    post(client, paste, 303, text=text, do="apply", digest=digest[1], why="list")
    assert content(form, "S2") == {"supplier_sku": "S2", "sku": "B", "kind": "raw"}
    post(client, paste, 409, text=text, do="apply", digest=digest[1], why="list")
    page = post(client, paste, 200, text="supplier_sku\tsku\nS3\t\n", do="review")
    assert "a value is required" in page
    assert re.search(r'value="apply" disabled', page)


def test_a_paste_with_decimal_commas_says_how_to_read_them(client: TestClient) -> None:
    paste, text = f"{LIST}/paste", "supplier_sku\tsku\tkind\tpack_size\nS1\tA\traw\t2,0\n"
    hint = "If it separates decimals, choose"
    page = post(client, paste, 200, text=text, do="review")
    assert "decimals are separated by a point: enter 2.0" in page
    assert hint in page
    page = post(client, paste, 200, text=text, comma="1", do="review")
    assert "1 new" in page
    assert hint not in page


def test_a_paste_names_columns_that_the_form_lost_since_and_keeps_the_text(
    client: TestClient, folder: Path, form: OpenedForm
) -> None:
    paste, text = f"{LIST}/paste", "supplier_sku\tsku\tkind\tremark\nS1\tA\traw\ttyped\n"
    digest = re.search(r'name="digest" value="(\w+)"', post(client, paste, 200, text=text, do="review"))
    assert digest is not None
    (folder / "flows" / "a.dpl").write_text(FLOW.replace(", remark", ""))
    page = post(client, paste, 409, text=text, do="apply", digest=digest[1], why="list")
    assert "Rows or columns changed since the review." in page
    assert "! The form has no column remark and does not save these values." in page
    assert text in page
    assert content(form) is None


def test_after_a_paste_the_list_says_how_many_rows_changed_and_offers_undo(
    client: TestClient, form: OpenedForm
) -> None:
    paste, text = f"{LIST}/paste", "supplier_sku\tsku\tkind\nS1\tA\traw\nS2\tB\traw\n"
    digest = re.search(r'name="digest" value="(\w+)"', post(client, paste, 200, text=text, do="review"))
    assert digest is not None
    sent = {"text": text, "do": "apply", "digest": digest[1], "why": "list"}
    saved = client.post(paste, data=sent).headers["location"]
    assert saved == f"{LIST}?done=1"
    assert "2 rows changed, by batch 1. Undo batch 1" in text_of(client.get(saved).text)
    assert "rows changed" not in client.get(LIST).text
    assert "rows changed" not in client.get(f"{LIST}?done=2").text
    edits = [Edit(("S9",), {"sku": "Z", "kind": "raw"}, None)]
    apply(form.database, form.entity, by=FormRights("another"), why="x", edits=edits)
    assert "changed, by batch" not in client.get(f"{LIST}?done=2").text
    undone = client.post(f"{LIST}/undo", data={"batch": "1", "why": "undo"}).headers["location"]
    assert (undone, content(form), content(form, "S9")) == (
        f"{LIST}?done=3",
        None,
        {"supplier_sku": "S9", "sku": "Z", "kind": "raw"},
    )
    page = text_of(client.get(saved).text)
    assert "2 rows changed, by batch 1. " in page
    assert "Undo batch 1" not in page
    client.post(ROW, data=VALUES)
    problem = post(client, f"{LIST}/undo", 409, batch="3", why="undo")
    assert "Nothing was saved." in problem


def test_an_undo_that_needs_approval_is_a_proposal(client: TestClient, folder: Path) -> None:
    client.post(ROW, data=VALUES)
    flow = folder / "flows" / "a.dpl"
    flow.write_text(FLOW.replace("EVERY DAY", "OPTIONS (approval true) EVERY DAY"))
    assert client.post(f"{LIST}/undo", data={"batch": "1", "why": "undo"}).headers["location"].endswith("number=1")
    assert "1 open proposal" in text_of(client.get("/forms").text)


def test_enter_in_the_reason_of_a_review_applies_it(client: TestClient) -> None:
    """The first button of a form is the one that Enter presses."""
    paste = f"{LIST}/paste"
    buttons = re.compile(r'<button class="btn[^>]*value="(\w+)"( disabled)?')
    assert buttons.findall(client.get(paste).text)[0] == ("review", "")
    page = post(client, paste, 200, text="supplier_sku\tsku\tkind\nS1\tA\traw\n", do="review")
    assert buttons.findall(page)[0] == ("apply", "")
    page = post(client, paste, 200, text="supplier_sku\tsku\nS1\t\n", do="review")
    assert buttons.findall(page)[0] == ("apply", " disabled")


def test_the_list_of_forms_counts_rows_those_that_wait_and_proposals(
    client: TestClient, form: OpenedForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.post(ROW, data=VALUES)
    edits = [Edit((f"S{n}",), {}, None) for n in range(2, 5)]
    apply(form.database, form.entity, by=FormRights("p"), why="x", edits=edits, origin=Origin.PUBLISH)
    assert "mdm.product_map 4 rows · ! 3 rows need a value" in text_of(client.get("/forms").text)
    asked = []

    def fail(*values: Any) -> OpenedForm:
        asked.append(values[1])
        raise WaterclockError("E880", "the database does not answer", why="it is off", fix="start it")

    monkeypatch.setattr(form_content, "open_form", fail)
    assert "mdm.product_map ✕ the database does not answer: it is off" in text_of(client.get("/forms").text)
    assert asked == ["mdm.product_map"]


def test_characters_that_are_not_visible_are_marked_on_each_page(client: TestClient, form: OpenedForm) -> None:
    override, blank = "\u202e", "\u200b"
    mark, of_blank = (
        f'<span class="hid" data-code="{code}">{each}</span>'
        for code, each in ((r"\u202e", override), (r"\u200b", blank))
    )
    text = f"supplier_sku\tsku\tkind\nS{blank}1\ta{override}b<i>\traw\n"
    page = post(client, f"{LIST}/paste", 200, text=text, do="review")
    assert f"<td>S{of_blank}1</td><td>a{mark}b&lt;i&gt;</td>" in page
    edits = [Edit((f"S{blank}1",), {"sku": f"a{override}b<i>", "kind": "raw"}, None)]
    apply(form.database, form.entity, by=FormRights("p"), why="x", edits=edits)
    listed = client.get(LIST).text
    assert f">S{of_blank}1</a>" in listed
    assert f">a{mark}b&lt;i&gt;</td>" in listed
    assert f'data-v="a{override}b&lt;i&gt;"' in listed  # what the grid edits and copies
    address = f"{ROW}?key={quote(f'S{blank}1')}"
    row = client.get(address).text
    assert f'<h1 class="m">S{of_blank}1</h1>' in row
    assert f"! It has characters that are not visible: a{mark}b&lt;i&gt;" in row
    assert row.count(mark) == 2  # once beside the field, once in the history
    sent = {"key": f"S{blank}1", "version": "", "f.sku": f"{override}c", "f.kind": "raw", "why": "x"}
    assert f"<td>{mark}c</td>" in client.post(ROW, data=sent).text  # a conflict


def test_a_paste_may_be_large_and_has_a_bound(client: TestClient) -> None:
    text = "supplier_sku,sku,kind\n" + "".join(f"S{n},K{n},raw\n" for n in range(10_000))
    assert "10000 new" in post(client, f"{LIST}/paste", 200, text=text, do="review")
    assert client.post(f"{LIST}/paste", data={"text": "x" * (8 << 20)}).status_code == 413
    assert client.post(ROW, data={"f.remark": "x" * 70_000}).status_code == 413


def test_a_page_of_rows_is_cut_by_key_found_and_sorted(client: TestClient, form: OpenedForm) -> None:
    edits = [Edit((f"S{n:03}",), {"sku": f"K{999 - n}", "kind": "raw"}, None) for n in range(250)]
    apply(form.database, form.entity, by=FormRights("ada"), why="list", edits=edits)
    page = client.get(LIST).text
    assert len(re.findall(r'class="m" href', page)) == 100
    following = re.search(r'<a href="([^"]+)" rel="next"', page)
    assert following is not None
    assert "S100" in client.get(following[1].replace("&amp;", "&")).text
    assert len(re.findall(r'class="m" href', client.get(f"{LIST}?q=s24").text)) == 10
    first = re.search(r'class="m" href="[^"]+">(\w+)<', client.get(f"{LIST}?sort=sku").text)
    assert first is not None
    assert first[1] == "S249"


def test_rows_that_wait_are_marked_with_their_hints(client: TestClient, form: OpenedForm) -> None:
    edit = Edit(("S9",), {}, None)
    apply(form.database, form.entity, by=FormRights("publish"), why="x", edits=[edit], origin=Origin.PUBLISH)
    with form.database.open_for_writing("test") as session:
        session.execute("UPDATE waterclock_forms_rows SET hints = ?", ('{"orders":"3"}',))
    page = text_of(client.get(f"{LIST}?waiting=1").text)
    assert "1 row needs a value and is not collected" in page
    assert "orders: 3" in page


def test_values_of_similar_keys_are_filled_into_the_fields_and_not_saved(client: TestClient, form: OpenedForm) -> None:
    rows = [Edit(("TEA-1",), {"sku": "A <b>", "kind": "raw"}, None), Edit(("Z",), {"sku": "Z", "kind": "raw"}, None)]
    apply(form.database, form.entity, by=FormRights("ada"), why="list", edits=rows)
    new = [Edit(("TEA-2",), {}, None)]
    apply(form.database, form.entity, by=FormRights("publish"), why="x", edits=new, origin=Origin.PUBLISH)
    page = client.get(f"{ROW}?key=TEA-2").text
    address = re.search(r'href="([^"]+)" data-key="1"', page)
    assert address is not None
    assert "sku A &lt;b&gt;" in page
    assert 'data-key="2"' not in page
    chosen = client.get(address[1].replace("&amp;", "&")).text
    assert re.search(r'<textarea id="f-2" name="f.sku"[^>]*>\n\s*A &lt;b&gt;</textarea>', chosen)
    assert "not saved yet" in chosen
    assert content(form, "TEA-2") == {"supplier_sku": "TEA-2"}
    other = client.get(f"{ROW}?key=TEA-2&like=Z").text  # a key that is not similar
    assert "not saved yet" not in other
    assert "Values of alike keys" not in client.get(f"{ROW}?key=TEA-1").text


@pytest.mark.parametrize("key", ["O'Neil <b>", "a/b?c#d", '"x"', "名前"])
def test_any_key_is_shown_as_it_is(client: TestClient, form: OpenedForm, key: str) -> None:
    client.post(ROW, data=VALUES | {"f.supplier_sku": key})
    assert content(form, key)["sku"] == "A"
    page = client.get(f"{ROW}?key={quote(key, safe='')}")
    assert page.status_code == 200
    assert "<b>" not in page.text.partition("<h1")[2].partition("</h1>")[0]


@pytest.mark.parametrize("address", ["/forms/none.such", f"{ROW}?key=none", f"{LIST}x"])
def test_a_missing_form_row_or_page_is_not_found(client: TestClient, address: str) -> None:
    assert client.get(address).status_code == 404


def test_a_post_from_another_site_is_refused(client: TestClient, form: OpenedForm) -> None:
    answer = client.post(ROW, data=VALUES, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403
    assert content(form) is None
    assert "default-src 'self'" in client.get(LIST).headers["content-security-policy"]
    assert TOKEN not in client.get(LIST).text


def test_only_people_with_the_right_to_edit_change_rows(folder: Path, form: OpenedForm) -> None:
    pages = Pages(folder, "2020-01-05")
    batch = {"key": "S1", "batch": "1", "why": "x"}
    posts = {ROW: VALUES, f"{LIST}/undo": batch, f"{LIST}/paste": {"text": "S1,A,raw", "do": "review"}}
    for rights in ([Right.LOOK], [Right.LOOK, Right.QUERY, Right.RUN, Right.RELEASE, Right.ERASE], [Right.QUERY]):
        for address, values in posts.items():
            assert pages.ask(rights, "POST", address, **values)[0] == 403
    assert content(form) is None
    assert pages.ask([Right.LOOK, Right.EDIT], "POST", ROW, **VALUES)[0] == 303
    status, page = pages.ask([Right.LOOK], "GET", LIST)
    assert (status, "Add a row" in page) == (200, False)
    page = pages.ask([Right.LOOK], "GET", f"{ROW}?key=S1")[1]
    assert "the right edit is missing" in page
    assert 'value="save"' not in page
    assert pages.ask([Right.QUERY], "GET", LIST)[0] == 403
    assert list_changes(form.database, form.entity, ("S1",))[0].who == "anna"


def test_people_who_see_only_some_rows_do_not_see_the_form(folder: Path) -> None:
    (folder / "waterclock.toml").write_text(
        f'{TOML}[roles]\nviewer = ["look", "edit"]\n[users.anna]\nroles = ["viewer"]\n'
    )
    (folder / "flows" / "b.dpl").write_text("GRANT SELECT ON mdm.product_map WHERE kind = 'raw' TO (viewer);")
    pages = Pages(folder, "2020-01-05")
    for address in (LIST, f"{ROW}?key=S1", f"{LIST}/paste"):
        assert pages.ask([Right.LOOK, Right.EDIT], "GET", address)[0] == 403
    assert pages.ask([Right.LOOK, Right.EDIT], "POST", ROW, **VALUES)[0] == 403


PRODUCTS = """
COLLECT mdm.products (sku KEY, name, gtin) FROM forms.products EVERY DAY START '2020-01-01';
COLLECT mdm.prices (sku KEY REFERENCES mdm.products, list REFERENCES mdm.lists, gtin REFERENCES mdm.products (gtin))
  FROM forms.prices EVERY DAY START '2020-01-01';
COLLECT mdm.lists (list KEY) FROM forms.lists EVERY DAY START '2020-01-01';
"""


def options_of(page: str) -> list[tuple[str, str]]:
    return re.findall('<option value="(.*?)">(.*?)</option>', page)


def test_a_field_that_refers_to_another_form_is_completed_from_its_rows(folder: Path, client: TestClient) -> None:
    (folder / "flows" / "b.dpl").write_text(PRODUCTS)
    products = open_form(open_project(folder, None), "mdm.products")
    edits = [
        Edit((f"P{at:03d}",), {"sku": f"P{at:03d}", "name": f"Tea <{at}>", "gtin": f"40{at % 2}"}, None)
        for at in range(30)
    ]
    apply(products.database, products.entity, by=FormRights("anna"), why="first", edits=edits)
    page = client.get("/forms/mdm.prices/row").text
    assert re.findall('hx-get="(.*?)"', page) == [
        "/forms/mdm.products/values?column=",
        "/forms/mdm.lists/values?column=",
        "/forms/mdm.products/values?column=gtin",
    ]
    address = "/forms/mdm.products/values"
    assert options_of(client.get(address, params={"column": "", "f.sku": "p007"}).text) == [
        ("P007", "Tea &lt;7&gt;, 401")
    ]
    assert options_of(client.get(address, params={"column": "", "f.sku": "<12"}).text)[0][0] == "P012"
    assert len(options_of(client.get(address, params={"column": "", "f.sku": "tea"}).text)) == 20
    assert {value for value, _ in options_of(client.get(address, params={"column": "GTIN"}).text)} == {"400", "401"}
    assert options_of(client.get(address, params={"column": "", "f.sku": "nothing"}).text) == []
    assert options_of(client.get(address, params={"column": "none"}).text) == []
    assert client.get("/forms/mdm.none/values").status_code == 404


def test_values_of_a_form_are_not_shown_to_people_who_see_only_some_rows(folder: Path) -> None:
    (folder / "waterclock.toml").write_text(
        f'{TOML}[roles]\nviewer = ["look", "edit"]\n[users.anna]\nroles = ["viewer"]\n'
    )
    (folder / "flows" / "b.dpl").write_text(f"{PRODUCTS}GRANT SELECT ON mdm.products WHERE name = 'x' TO (viewer);")
    pages = Pages(folder, "2020-01-05")
    assert pages.ask([Right.LOOK, Right.EDIT], "GET", "/forms/mdm.products/values?column=")[0] == 403


PAIRS = """COLLECT mdm.pairs (a KEY, n INT KEY, v) FROM forms.pairs EVERY DAY START '2020-01-01';"""


@pytest.mark.parametrize(
    "key", ["garbage", "[1,2]", '["a"]', '{"a":1}', "[" * 5000, "null", '["\\ud800","1"]', '["\\u0000","1"]']
)
def test_a_key_that_no_row_can_have_is_not_found(folder: Path, client: TestClient, key: str) -> None:
    (folder / "flows" / "b.dpl").write_text(PAIRS)
    assert client.get("/forms/mdm.pairs/row", params={"key": key}).status_code == 404
    post(client, "/forms/mdm.pairs/row", 404, key=key, f__v="x", why="w")


def test_a_posted_key_in_another_form_adds_no_second_row(folder: Path, client: TestClient, form: OpenedForm) -> None:
    (folder / "flows" / "b.dpl").write_text(PAIRS)
    client.post(ROW, data=VALUES)
    assert "its stored form, S1" in post(client, status=422, key=" S1 ", f__sku="B", f__kind="raw", why="w")
    post(client, "/forms/mdm.pairs/row", 422, key='["a","01"]', f__v="x", why="w")
    assert content(form, " S1 ") is None


def test_a_branch_opens_no_form_of_its_base(folder: Path) -> None:
    (folder / "waterclock.toml").write_text(TOML + '[env.try]\nfrom = "dev"\n')
    with pytest.raises(WaterclockError, match="not edited in the branch try") as raised:
        open_form(open_project(folder, "try"), "mdm.product_map")
    assert raised.value.code == "E894"
    assert "--env dev" in str(raised.value.fix)
