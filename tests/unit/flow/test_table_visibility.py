"""Visibility of tables for users, and of tables that follow the grants of another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES
from waterclock.dpl.adhoc import adhoc_query
from waterclock.dpl.project import Project, load_project
from waterclock.dpl.query.visible_flow import check_restricted_calls, show_flow
from waterclock.errors import ProjectErrors
from waterclock.flow.table_visibility import TableVisibility, form_of, grants_of, is_restricted
from waterclock.permissions.users_and_roles import Person, Right, SignIn

TOML = """
[project]
name = "shop"
[defaults]
start = "2026-01-01"
[roles]
analyst = ["query"]
boss = ["administer"]
[users.anna]
roles = ["analyst"]
attributes.land = "DE"
[users.ben]
roles = ["analyst"]
[users.dora]
roles = ["boss"]
[env.dev]
connections.ops = { path = "ops.sqlite" }
"""
FLOW = """
CREATE CONNECTION ops TYPE sqlite;
COLLECT raw.orders PARTITIONED (id BIGINT, at TIMESTAMP, pay INT HIDDEN, land STRING) FROM ops.orders EVERY HOUR
  BY DATA TIME at WATERMARK at 1 HOUR;
TRANSFORM marts.daily PARTITIONED (n BIGINT) OPTIONS (open_windows 'kept') EVERY DAY
  CLOSE WHEN watermark(at) >= WINDOW_END()
  AS SELECT count(*) AS n FROM UNTIL(raw.orders, '1 day');
COLLECT raw.open (id BIGINT) FROM ops.open EVERY DAY;
CREATE VIEW stg.orders AS SELECT id FROM raw.orders;
COLLECT dim.land (code STRING KEY) FROM ops.land EVERY DAY;
COLLECT raw.ships (id BIGINT KEY, land STRING REFERENCES dim.land) FROM ops.ships EVERY DAY;
CREATE VIEW stg.flat AS SELECT * FROM FLAT(raw.ships);
PUBLISH marts.daily TO ops.daily_out;
PUBLISH raw.open TO ops.open_out;
CREATE VIEW stg.both AS SELECT o.id FROM stg.orders o JOIN marts.daily d ON o.id = d.n;
CREATE FUNCTION fails(x STRING) RETURNS STRING RETURN raise_error(x);
CREATE FUNCTION calls(x STRING) RETURNS STRING RETURN upper(fails(x));
CREATE FUNCTION low(x STRING) RETURNS STRING RETURN lower(x);
"""
GRANTS = """
GRANT SELECT (* EXCEPT (pay)) ON raw.orders TO anna WHERE land = USER('land');
GRANT SELECT ON marts.* TO ben;
"""


def project(root: Path, *, python: bool = False, grants: str = GRANTS) -> Project:
    (root / "flows").mkdir()
    (root / "waterclock.toml").write_text(TOML, encoding="utf-8")
    (root / "flows" / "a.dpl").write_text(FLOW + ("" if python else grants), encoding="utf-8")
    if python:
        (root / "flows" / "b.py").write_text(
            "import waterclock as wc\n"
            'wc.grant("select", on="raw.orders", to="anna", columns="* EXCEPT (pay)", where="land = USER(\'land\')")\n'
            'wc.grant("select", on="marts.*", to="(ben)")\n',
            encoding="utf-8",
        )
    return load_project(root, capabilities=CAPABILITIES)


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    return project(tmp_path)


def person(shop: Project, name: str) -> Person:
    found = shop.access.person(name, SignIn.TOKEN)
    assert found is not None
    return found


def test_both_languages_declare_the_same_grants(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    grants = project(tmp_path / "one").flow.grants
    assert grants == project(tmp_path / "two", python=True).flow.grants
    assert [grant.tables for grant in grants] == [("raw.orders",), ("marts.daily",)]


def test_tables_follow_the_grants_of_their_table(shop: Project) -> None:
    anna, ben, dora = (person(shop, name) for name in ("anna", "ben", "dora"))
    forms = {
        name: (form_of(shop.flow, anna, name), form_of(shop.flow, ben, name), form_of(shop.flow, dora, name))
        for name in (
            "raw.orders", "raw.orders_view", "raw.orders_quarantine", "raw.orders_held", "raw.orders_mark", "raw.open",
            "raw.open_held", "marts.daily", "marts.daily_late", "marts.spd_daily", "marts.daily_view",
        )
    }  # fmt: skip
    some, none, whole = TableVisibility.RESTRICTED, TableVisibility.NONE, TableVisibility.WHOLE
    assert forms == {
        "raw.orders": (some, none, whole),
        "raw.orders_view": (some, none, whole),
        "raw.orders_quarantine": (none, none, whole),
        "raw.orders_held": (none, none, whole),
        "raw.orders_mark": (none, none, whole),
        "raw.open": (whole, whole, whole),
        "raw.open_held": (whole, whole, whole),
        "marts.daily": (none, whole, whole),
        "marts.daily_late": (none, none, whole),  # whole rows of raw.orders
        "marts.spd_daily": (none, whole, whole),
        "marts.daily_view": (none, whole, whole),
    }
    assert is_restricted(shop.flow, anna)
    assert is_restricted(shop.flow, ben)
    assert not is_restricted(shop.flow, dora)


def test_a_grant_closes_the_persons_that_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that were not granted would be open to everyone otherwise, once APART moves them to another table."""
    monkeypatch.setenv("WATERCLOCK_SECRET_PII", "0123456789abcdef" * 4)
    apart = """
CREATE CONNECTION pii TYPE keys OPTIONS (key.1 SECRET 'pii', current '1');
COLLECT raw.visits PARTITIONED (id BIGINT, person BIGINT, email STRING, at TIMESTAMP) FROM ops.visits EVERY DAY
  BY DATA TIME at;
TRANSFORM web.visits PARTITIONED (id BIGINT KEY, person BIGINT SUBJECT customer, email STRING) APART (email)
AS SELECT id, person, email FROM raw.visits;
GRANT SELECT (id) ON web.visits TO (analyst);
"""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    shop = project(tmp_path / "one", grants=apart)
    anna, dora = person(shop, "anna"), person(shop, "dora")
    assert form_of(shop.flow, anna, "web.visits_apart") is TableVisibility.NONE
    assert form_of(shop.flow, anna, "web.visits_apart_quarantine") is TableVisibility.NONE
    assert form_of(shop.flow, dora, "web.visits_apart") is TableVisibility.WHOLE
    assert "web.visits_whole" not in show_flow(shop.flow, anna).views
    granted = project(tmp_path / "two", grants=f"{apart}GRANT SELECT ON web.visits TO anna;")
    assert is_restricted(granted.flow, anna), "she sees all of the events, but not the persons"
    own = apart.replace("ON web.visits TO", "ON web.* TO") + "GRANT SELECT ON web.* TO anna;"
    (tmp_path / "three").mkdir()
    assert not is_restricted(project(tmp_path / "three", grants=own).flow, anna)


def test_a_token_without_the_right_to_administer_is_restricted(shop: Project) -> None:
    scoped = shop.access.person("dora", SignIn.TOKEN, scope={Right.QUERY})
    assert scoped is not None
    assert form_of(shop.flow, scoped, "raw.orders") is TableVisibility.NONE
    assert grants_of(shop.flow, scoped, "raw.orders") == ()


def test_the_name_of_a_person_is_not_a_role(tmp_path: Path) -> None:
    to_role = "GRANT SELECT ON raw.* TO (analyst); GRANT SELECT ON marts.* TO ben;"
    flow = project(tmp_path, grants=to_role).flow
    # a provider may let users choose their names: these are not declared users
    for name in ("analyst", "boss"):
        named = Person(name, frozenset({Right.QUERY}), SignIn.OIDC, roles=frozenset({"guest"}))
        assert form_of(flow, named, "raw.orders") is form_of(flow, named, "marts.daily") is TableVisibility.NONE
    of_group = Person("cleo", frozenset({Right.QUERY}), SignIn.OIDC, roles=frozenset({"analyst"}))
    assert form_of(flow, of_group, "raw.orders") is TableVisibility.WHOLE
    assert form_of(flow, of_group, "marts.daily") is TableVisibility.NONE


def test_views_and_publishes_of_tables_without_a_grant_are_unknown(tmp_path: Path) -> None:
    shop = project(tmp_path, grants="GRANT SELECT ON dim.* TO dora; GRANT SELECT ON marts.* TO dora;")
    anna = show_flow(shop.flow, person(shop, "anna"))
    assert "stg.flat" not in anna.views  # it names dim.land
    for name in ("stg.flat", "ops.daily_out"):
        with pytest.raises(ProjectErrors) as raised:
            adhoc_query(f"SELECT * FROM {name}", anna)
        assert [error.code for error in raised.value.errors] == ["E213"]
    assert "ops.open_out" in anna.tables
    assert "stg.flat" in show_flow(shop.flow, person(shop, "dora")).views


def test_names_of_tables_without_a_grant_are_unknown(shop: Project) -> None:
    anna = show_flow(shop.flow, person(shop, "anna"))
    assert "marts.daily" not in anna.tables
    assert "stg.orders" in anna.views
    assert "stg.both" not in anna.views
    assert anna.tables["raw.orders"].hidden_columns == ()
    adhoc_query("SELECT * FROM raw.orders JOIN stg.orders USING (id)", anna)
    for name in ("marts.daily", "marts.daily_view", "stg.both", "raw.orders_held"):
        with pytest.raises(ProjectErrors) as raised:
            adhoc_query(f"SELECT * FROM {name}", anna)
        assert [error.code for error in raised.value.errors] == ["E213"]
        assert "daily" not in (raised.value.errors[0].fix or "").replace(name, "")


def test_status_tables_are_not_granted(shop: Project) -> None:
    """They exist in every project, so their names are no secret, and declaring them would not help."""
    with pytest.raises(ProjectErrors) as raised:
        adhoc_query("SELECT * FROM waterclock.batches", show_flow(shop.flow, person(shop, "anna")))
    error = raised.value.errors[0]
    assert (error.code, error.what) == ("E946", "waterclock.batches is not granted")
    assert "administrator" in (error.fix or "")


@pytest.mark.parametrize(
    ("call", "is_refused"),
    [
        ("raise_error('x')", True), ("ASSERT_TRUE(id > 1)", True), ("`raise_error`(id)", True), ("fails(id)", True),
        ("Calls(id)", True), ("generalize(id, width => id)", True), ("input_file_name()", True), ("low(id)", False),
        ("mask_text(id)", False), ("'raise_error(1)'", False), ("upper(id)", False),
    ],
)  # fmt: skip
def test_functions_that_fail_at_chosen_rows_are_refused(shop: Project, call: str, is_refused: bool) -> None:
    errors = check_restricted_calls(f"SELECT {call} FROM raw.orders", shop.flow)
    assert [error.code for error in errors] == (["E946"] if is_refused else [])


def test_input_rows_in_quarantine_are_for_those_who_see_the_whole_input(tmp_path: Path) -> None:
    rule = (
        "TRANSFORM marts.checked PARTITIONED (id BIGINT) EXPECT id > 0 OF raw.orders ELSE QUARANTINE"
        " AS SELECT id FROM raw.orders;"
    )
    made = project(tmp_path, grants=GRANTS + rule)
    forms = {
        who: [form_of(made.flow, person(made, who), name) for name in ("marts.checked", "marts.checked_quarantine")]
        for who in ("ben", "dora")
    }
    assert forms == {"ben": [TableVisibility.WHOLE, TableVisibility.NONE], "dora": [TableVisibility.WHOLE] * 2}


class CountedNames(tuple[str, ...]):
    """The tables of a grant; counts how often they are read."""

    __slots__ = ()

    reads = 0

    def __iter__(self) -> Iterator[str]:
        CountedNames.reads += 1
        return super().__iter__()

    def __contains__(self, name: object) -> bool:
        CountedNames.reads += 1
        return super().__contains__(name)


def test_the_grants_are_read_once_per_flow_and_not_per_table(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"raw.t{number}" for number in range(40)]
    grant, table = shop.flow.grants[0], shop.flow.tables["raw.open"]
    flow = replace(
        shop.flow,
        tables={name: replace(table, name=name) for name in names},
        grants=tuple(
            replace(grant, tables=CountedNames([name]), users=frozenset({who}))
            for name in names
            for who in ("anna", "ben")
        ),
    )
    monkeypatch.setattr(CountedNames, "reads", 0)
    anna, dora = person(shop, "anna"), person(shop, "dora")
    assert (is_restricted(flow, anna), is_restricted(flow, dora)) == (True, False)
    assert [*show_flow(flow, anna).tables] == names
    assert [grants_of(flow, anna, name) for name in names] == [(each,) for each in flow.grants[::2]]
    assert CountedNames.reads <= len(flow.grants)  # for the flow that `show_flow` makes
