"""Fields of forms that refer to tables of the storage: values are offered while a person types, without Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.slices import SCHEMA, START, commit, hour, rows_of, schema_json
from tests.unit.ui.test_form_proposals import Desk
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.operations import reference_values
from waterclock.permissions.users_and_roles import Right
from waterclock.storage.commit.creation import create_table
from waterclock.storage.lake import Lake

FLOW = """
CREATE CONNECTION forms TYPE forms;
CREATE CONNECTION land TYPE files OPTIONS (path 'landing');
COLLECT dim.product (id BIGINT KEY, name STRING) FROM land.product EVERY DAY START '2020-01-01';
COLLECT dim.pair (id BIGINT KEY, name STRING KEY) FROM land.pair EVERY DAY START '2020-01-01';
COLLECT mdm.map (code KEY, product BIGINT REFERENCES dim.product, name REFERENCES dim.product (name),
  pair BIGINT REFERENCES dim.pair) FROM forms.map EVERY DAY START '2020-01-01';
"""
TOML = '[project]\nname = "shop"\n[env.dev]\nstorage = ".dev"\n[roles]\nall = ["look", "query", "edit"]\n'
TOML += "".join(f'[users.{name}]\nroles = ["all"]\n' for name in ("anna", "ben"))
VALUES = "/forms/mdm.map/values"
READER = [Right.LOOK, Right.QUERY, Right.EDIT]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW)
    (tmp_path / "waterclock.toml").write_text(TOML)
    with open_workplace(load_project(tmp_path, capabilities=capabilities())) as work:
        apply_flow(work, START)
    return tmp_path


def product_table(folder: Path) -> str:
    made = Lake(str(folder / ".dev")).folder("dim.product")
    create_table(made, schema_json(SCHEMA), is_partitioned=False, project="shop")
    return made


def options(desk: Desk, text: str, *, of: str = "product", rights: list[Right] = READER) -> list[tuple[str, str]]:
    status, page = desk.ask("anna", rights, "GET", f"{VALUES}?of={of}&f.{of}={text}")
    assert status == 200, page
    return re.findall('<option value="(.*?)">(.*?)</option>', page)


def test_rows_of_the_newest_state_are_offered(folder: Path) -> None:
    desk = Desk(folder)
    assert options(desk, "n1") == []  # no batch yet
    table = product_table(folder)
    commit(table, 1, {hour(0): rows_of(900)}, mode="replace")
    commit(table, 2, {hour(1): [*rows_of(*range(30)), {"id": 77, "name": "Grüner <Tee>"}, {"id": None, "name": "no"}]},
           mode="replace")  # fmt: skip
    status, page = desk.ask("anna", READER, "GET", "/forms/mdm.map/row")
    assert status == 200
    assert re.findall('hx-get="(.*?)"', page) == [
        f"{VALUES}?of=product",
        f"{VALUES}?of=name",
    ]  # a KEY of two is left out
    assert options(desk, "GRÜNER") == [("77", "Grüner &lt;Tee&gt;")]
    assert options(desk, "n29") == [("29", "n29")]
    assert options(desk, "9", of="name") == [("n9", ""), ("n19", ""), ("n29", "")]
    assert len(options(desk, "")) == 20
    assert options(desk, "900") == []  # of an earlier state
    assert options(desk, "no") == []  # it has no value to choose
    assert options(desk, "n1", of="pair") == options(desk, "n1", of="code") == options(desk, "n1", of="none") == []


def test_a_search_reads_a_bounded_number_of_rows_and_ends_at_a_missing_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, desk = product_table(folder), Desk(folder)
    commit(table, 1, {hour(0): rows_of(*range(100))}, mode="replace")
    monkeypatch.setattr(reference_values, "MOST_READ", 50)
    assert options(desk, "n49") == [("49", "n49")]
    assert options(desk, "n50") == []
    monkeypatch.setattr(reference_values, "_MOST_BYTES", 10)
    assert options(desk, "n1") == []
    monkeypatch.undo()
    for file in Path(table).rglob("*.parquet"):
        file.unlink()
    assert options(desk, "n1") == []


def test_people_who_do_not_see_the_whole_table_are_offered_nothing(folder: Path) -> None:
    commit(product_table(folder), 1, {hour(0): rows_of(1)}, mode="replace")
    assert options(Desk(folder), "1", rights=[Right.LOOK, Right.EDIT]) == []  # they may not query
    for grant in ("(id)", "", "(id, name)"):
        where = "WHERE name = 'n1'" if not grant else ""
        (folder / "flows" / "b.dpl").write_text(f"GRANT SELECT {grant} ON dim.product TO (anna) {where};")
        desk = Desk(folder)
        assert options(desk, "1") == []
        assert "of=product" not in desk.ask("anna", READER, "GET", "/forms/mdm.map/row")[1]
    (folder / "flows" / "b.dpl").write_text("GRANT SELECT ON dim.product TO (ben);")
    desk = Desk(folder)
    assert options(desk, "1") == []
    assert "dim.product" not in desk.ask("anna", READER, "GET", "/forms/mdm.map/row")[1]
    (folder / "flows" / "b.dpl").write_text("GRANT SELECT ON dim.product TO (anna);")
    assert options(Desk(folder), "1") == [("1", "n1")]
