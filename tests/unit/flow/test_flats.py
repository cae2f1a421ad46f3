from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flat, FlatJoin, Flow, Read
from waterclock.flow.flat_joins import flat_of
from waterclock.flow.flats import find_name_clashes, flat_columns

FLOW = """
CREATE CONNECTION ops TYPE sqlite;
COLLECT dim.city (code KEY, city, land REFERENCES dim.land) FROM ops.city EVERY DAY TEMPORAL;
COLLECT dim.land (code KEY, name) FROM ops.land EVERY DAY;
COLLECT dim.client (nr KEY, shop KEY, home REFERENCES dim.city ROLE home, work REFERENCES dim.city (CODE) ROLE work)
  FROM ops.client EVERY DAY TEMPORAL;
COLLECT fact.sale (id KEY, sold_at TIMESTAMP, shop REFERENCES dim.client (shop) ROLE buyer AT sold_at,
  buyer REFERENCES dim.client (Nr) ROLE buyer, city) FROM ops.sale EVERY DAY;
COLLECT fact.wrong (id KEY, city REFERENCES dim.city) FROM ops.wrong EVERY DAY;
COLLECT fact.visit (id KEY, at TIMESTAMP, shop REFERENCES dim.client ROLE guest AT at,
  nr REFERENCES dim.client ROLE guest) FROM ops.visit EVERY DAY;
"""


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW)
    (tmp_path / "waterclock.toml").write_text(
        '[project]\nname = "a"\n[env.dev]\nconnections.ops = { path = "ops.sqlite" }\n'
    )
    return load_project(tmp_path, capabilities=capabilities()).flow


def seen(flow: Flow, table: str) -> tuple[str, ...]:
    names = [column.name for column in flow.tables[table].columns.named]
    temporal = flow.tables[table].temporal
    return (*(temporal.outputs(names) if temporal else names), "timelabel")


def flat_read(flow: Flow, table: str, *, is_exact: bool = False) -> Flat:
    errors: list[WaterclockError] = []
    flat = flat_of(flow.tables, table, errors, is_exact=is_exact)
    assert errors == []
    assert flat is not None
    return flat


def test_references_are_followed_to_the_top_and_composite_keys_pair_by_name(flow: Flow) -> None:
    land = Flat(Read("dim.land"))
    city = Flat(Read("dim.city"), (FlatJoin(land, ("land",), ("code",)),), is_temporal=True)
    client = Flat(
        Read("dim.client"),
        (FlatJoin(city, ("home",), ("code",), "home"), FlatJoin(city, ("work",), ("code",), "work")),
        is_temporal=True,
    )
    sale = flat_read(flow, "fact.sale")
    assert sale == Flat(Read("fact.sale"), (FlatJoin(client, ("shop", "buyer"), ("shop", "nr"), "buyer", "sold_at"),))
    assert sale.included_reads == (Read("fact.sale"), Read("dim.client"), Read("dim.city"), Read("dim.land"))


def test_columns_with_the_names_of_a_composite_key_pair_by_them(flow: Flow) -> None:
    [join] = flat_read(flow, "fact.visit").joins
    assert (join.columns, join.parent_columns) == (("shop", "nr"), ("shop", "nr"))


def test_exact_applies_to_all_ancestors_that_keep_versions(flow: Flow) -> None:
    client = flat_read(flow, "dim.client", is_exact=True)
    assert client.is_exact
    assert [join.parent.is_exact for join in client.joins] == [True, True]
    assert not client.joins[0].parent.joins[0].parent.is_exact


def test_columns_take_their_roles_behind_their_names_and_keys_and_records_stay_behind(flow: Flow) -> None:
    columns = flat_columns(flat_read(flow, "fact.sale"), lambda table: seen(flow, table))
    assert columns is not None
    assert [each.name for each in columns] == [
        *("id", "sold_at", "shop", "buyer", "city", "home_buyer", "work_buyer"),
        *("city_home_buyer", "land_home_buyer", "name_home_buyer"),
        *("city_work_buyer", "land_work_buyer", "name_work_buyer"),
    ]
    assert (columns[-1].table, columns[-1].column) == ("dim.land", "name")
    assert find_name_clashes(columns) == {}


def test_columns_are_not_known_where_those_of_one_table_are_not(flow: Flow) -> None:
    flat = flat_read(flow, "fact.sale")
    assert flat_columns(flat, lambda table: None if table == "dim.land" else seen(flow, table)) is None


def test_a_duplicate_column_name_is_found_with_all_its_origins(flow: Flow) -> None:
    city = flat_read(flow, "dim.city")
    columns = flat_columns(city, lambda _: ("code", "CITY", "city"))
    assert columns is not None
    assert {name: len(found) for name, found in find_name_clashes(columns).items()} == {"CITY": 4}


def test_an_error_has_the_position_of_the_referencing_column(flow: Flow) -> None:
    errors: list[WaterclockError] = []
    assert flat_of(flow.tables, "fact.wrong", errors) is None
    assert [(error.code, error.where) for error in errors] == [("E237", "flows/a.dpl:9:29")]
