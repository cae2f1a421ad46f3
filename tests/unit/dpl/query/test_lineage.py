from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.dpl.query.column_trace import ColumnOf
from waterclock.dpl.query.lineage import Branch, ColumnLineage
from waterclock.errors import WaterclockError
from waterclock.flow.code_lineage import COMPUTED, CodeLineage, Origin
from waterclock.flow.declarations import Flow

COLLECTS = """
CREATE CONNECTION landing TYPE files OPTIONS (path 'in'); CREATE CONNECTION out TYPE files OPTIONS (path 'out');
COLLECT raw.flights PARTITIONED (carrier, dep_delay INT, Air_Time INT) FROM landing.faa.flights
  EVERY DAY BY ARRIVAL TIME;
COLLECT raw.planes PARTITIONED (tailnum, seats INT, *) FROM landing.faa.planes EVERY DAY BY ARRIVAL TIME;
"""

PYTHON = """
import waterclock as wc

@wc.transform("m.worst", partitioned=True)
def worst(flights=wc.table("raw.flights"), *, window: wc.Window) -> wc.DataFrame:
    return flights.groupBy("origin").count()
"""


def flow_of(folder: Path, transforms: str) -> Flow:
    (folder / "flows").mkdir(exist_ok=True)
    (folder / "waterclock.toml").write_text('[project]\nname = "x"\n[vars]\nlate = 15\n')
    (folder / "flows" / "all.dpl").write_text(COLLECTS + transforms)
    return load_project(folder, capabilities=capabilities()).flow


def inputs(flow: Flow, table: str, column: str, **schemas: dict[str, str]) -> list[str]:
    given = {name.replace("__", "."): columns for name, columns in schemas.items()}
    return [str(each) for each in ColumnLineage(flow, given).trace_column(ColumnOf(table, column)).inputs]


def test_a_column_is_made_of_those_in_its_expression(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "TRANSFORM m.d PARTITIONED AS SELECT carrier, avg(dep_delay + coalesce(air_time, 0)) AS mean, "
        "count_if(dep_delay > :late) AS late, count(*) AS n FROM raw.flights GROUP BY ALL;",
    )
    assert inputs(flow, "m.d", "mean") == ["raw.flights.Air_Time", "raw.flights.dep_delay"]
    assert inputs(flow, "m.d", "late") == ["raw.flights.dep_delay"]
    assert inputs(flow, "m.d", "n") == []
    assert ColumnLineage(flow).trace_column(ColumnOf("m.d", "mean")).expression.startswith("AVG(")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT f.dep_delay AS x FROM raw.flights f JOIN raw.planes p ON p.tailnum = f.carrier",
         ["raw.flights.dep_delay"]),
        ("SELECT p.seats * f.dep_delay AS x FROM raw.flights f CROSS JOIN raw.planes p",
         ["raw.planes.seats", "raw.flights.dep_delay"]),
        ("WITH a AS (SELECT dep_delay AS y FROM raw.flights), b AS (SELECT y + 1 z FROM a) SELECT max(z) AS x FROM b",
         ["raw.flights.dep_delay"]),
        ("SELECT x FROM (SELECT dep_delay AS x FROM raw.flights UNION ALL SELECT seats FROM raw.planes)",
         ["raw.flights.dep_delay", "raw.planes.seats"]),
        ("SELECT sum(dep_delay) OVER (PARTITION BY carrier ORDER BY air_time) AS x FROM raw.flights",
         ["raw.flights.dep_delay", "raw.flights.carrier", "raw.flights.Air_Time"]),
        ("SELECT DEP_DELAY AS X FROM raw.flights", ["raw.flights.dep_delay"]),
        ("SELECT dep_delay AS x FROM PAST(raw.flights, '7 days')", ["raw.flights.dep_delay"]),
        ("SELECT WINDOW_START() AS x FROM raw.flights", []),
    ],
)  # fmt: skip
def test_lineage_resolves_joins_ctes_unions_windows_and_reads(tmp_path: Path, query: str, expected: list[str]) -> None:
    flow = flow_of(tmp_path, f"TRANSFORM m.d PARTITIONED AS {query};")
    assert sorted(inputs(flow, "m.d", "x")) == sorted(expected)


def test_a_star_of_a_table_whose_columns_are_all_known_is_spread_out(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, "TRANSFORM m.d PARTITIONED AS SELECT f.*, 1 AS one FROM raw.flights f;")
    assert ColumnLineage(flow).columns("m.d") == ("carrier", "dep_delay", "Air_Time", "one")
    assert inputs(flow, "m.d", "air_time") == ["raw.flights.Air_Time"]


def test_a_star_of_an_open_table_is_followed_by_name_until_its_columns_are_known(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, "TRANSFORM m.d PARTITIONED AS SELECT * FROM raw.planes;")
    assert inputs(flow, "m.d", "engine") == ["raw.planes.engine"]
    assert ColumnLineage(flow).trace_column(ColumnOf("m.d", "engine")).note == "through *"
    known = {"tailnum": "string", "seats": "int", "timelabel": "string"}
    assert inputs(flow, "raw.planes", "engine") == []
    with pytest.raises(WaterclockError, match="E517"):
        inputs(flow, "raw.planes", "engine", raw__planes=known)
    with pytest.raises(WaterclockError, match="E517"):
        inputs(flow, "m.d", "engine", raw__planes=known, m__d=known)


def test_lineage_resolves_views(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "CREATE VIEW v.late AS SELECT carrier, dep_delay AS wait FROM raw.flights WHERE dep_delay > 0;"
        "TRANSFORM m.d PARTITIONED AS SELECT max(wait) AS worst FROM v.late;",
    )
    assert inputs(flow, "m.d", "worst") == ["raw.flights.dep_delay"]


def test_lineage_of_a_table_that_reads_itself_stops_at_the_first_repetition(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "TRANSFORM m.total (carrier STRING KEY, n BIGINT) AS SELECT carrier, sum(n) AS n FROM "
        "(SELECT carrier, n FROM PREVIOUS(m.total) UNION ALL SELECT carrier, dep_delay FROM raw.flights) "
        "GROUP BY carrier;",
    )
    assert sorted(inputs(flow, "m.total", "n")) == ["m.total.n", "raw.flights.dep_delay"]
    up = ColumnLineage(flow).trace_upstream(ColumnOf("m.total", "n"))
    assert {str(branch.column): branch.is_seen for branch in up.beyond} == {
        "m.total.n": True,
        "raw.flights.dep_delay": False,
    }


def test_downstream_lineage_reaches_published_columns(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "TRANSFORM m.d PARTITIONED AS SELECT carrier, avg(dep_delay) AS mean FROM raw.flights GROUP BY carrier;"
        "TRANSFORM m.e PARTITIONED AS SELECT max(mean) AS worst FROM m.d;"
        "PUBLISH m.d TO out.d OPTIONS (format 'csv');",
    )
    down = ColumnLineage(flow).trace_downstream(ColumnOf("raw.flights", "dep_delay"))
    assert tree(down) == {"raw.flights.dep_delay": {"m.d.mean": {"m.e.worst": {}, "out.d.mean": {}}}}
    assert tree(ColumnLineage(flow).trace_downstream(ColumnOf("raw.flights", "dep_delay"), depth=1)) == {
        "raw.flights.dep_delay": {"m.d.mean": {}}
    }


def test_a_python_transform_is_opaque_and_has_a_note(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "worst.py").write_text(PYTHON)
    flow = flow_of(tmp_path, "TRANSFORM m.e PARTITIONED AS SELECT late AS l FROM m.worst;")
    made = ColumnLineage(flow).trace_column(ColumnOf("m.worst", "late"))
    assert [str(each) for each in made.inputs] == ["raw.flights.*"]
    assert made.note == "made by worst in flows/worst.py, which cannot be looked into"
    assert tree(ColumnLineage(flow).trace_upstream(ColumnOf("m.e", "l"))) == {
        "m.e.l": {"m.worst.late": {"raw.flights.*": {}}}
    }
    down = tree(ColumnLineage(flow).trace_downstream(ColumnOf("raw.flights", "dep_delay")))
    assert down == {"raw.flights.dep_delay": {"m.worst.*": {"m.e.l": {}}}}


def shown(**columns: Origin) -> dict[str, CodeLineage]:
    return {"m.worst": CodeLineage(columns, {"group": frozenset({("raw.flights", "origin")})})}


def test_a_python_transform_is_followed_as_plans_have_shown_it(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "worst.py").write_text(PYTHON)
    flow = flow_of(tmp_path, "TRANSFORM m.e PARTITIONED AS SELECT late AS l, airport AS a FROM m.worst;")
    delay, origin = ("raw.flights", "dep_delay"), ("raw.flights", "origin")
    plan = shown(
        airport=Origin(frozenset({origin})),
        late=Origin(frozenset({delay}), frozenset({origin}), COMPUTED, frozenset({"mapInPandas"})),
    )
    lineage = ColumnLineage(flow, of_code=plan)
    assert lineage.columns("m.worst") == ("airport", "late")
    made = lineage.trace_column(ColumnOf("m.worst", "late"))
    assert made.note == "by worst in flows/worst.py, where mapInPandas cannot be looked into"
    assert made.unknown == {ColumnOf(*origin)}
    assert lineage.trace_column(ColumnOf("m.worst", "airport")).expression == "raw.flights.origin"
    up = lineage.trace_upstream(ColumnOf("m.e", "l")).beyond[0]
    assert {str(each.column): each.is_unknown for each in up.beyond} == {
        "raw.flights.dep_delay": False, "raw.flights.origin": True,
    }  # fmt: skip
    down = {str(each.column): each.is_unknown for each in lineage.trace_downstream(ColumnOf(*origin)).beyond}
    assert down == {"m.worst.airport": False, "m.worst.late": True}
    with pytest.raises(WaterclockError, match="E517"):
        lineage.trace_column(ColumnOf("m.worst", "other"))


def test_columns_that_are_declared_and_that_no_plan_shows_may_be_made_of_all(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "worst.py").write_text(
        PYTHON.replace("partitioned=True", 'columns="Late INT, n BIGINT", partitioned=True')
    )
    lineage = ColumnLineage(flow_of(tmp_path, ""), of_code=shown(late=Origin(), more=Origin()))
    assert lineage.columns("m.worst") == ("Late", "n")
    assert lineage.trace_column(ColumnOf("m.worst", "Late")).inputs == ()
    assert lineage.trace_column(ColumnOf("m.worst", "n")).unknown == {ColumnOf("raw.flights", "*")}


def test_a_collected_column_has_a_note_on_its_source(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, "")
    assert (
        ColumnLineage(flow).trace_column(ColumnOf("raw.flights", "carrier")).note
        == "collected from landing.faa.flights"
    )


def test_an_unknown_column_is_refused_with_the_nearest(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, "TRANSFORM m.d PARTITIONED AS SELECT carrier, dep_delay AS delay FROM raw.flights;")
    with pytest.raises(WaterclockError) as found:
        ColumnLineage(flow).trace_column(ColumnOf("m.d", "dealy"))
    assert found.value.code == "E517"
    assert found.value.fix == "did you mean delay?"


def tree(branch: Branch) -> dict[str, object]:
    return {str(branch.column): {name: under for each in branch.beyond for name, under in tree(each).items()}}


def test_versions_have_attributes_of_their_rows_and_a_record_of_the_time(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "TRANSFORM d.f (carrier KEY, *) TEMPORAL AT at ORDER BY seq AS "
        "SELECT carrier, timestamp_seconds(dep_delay) AS at, air_time + 1 AS n, air_time AS seq FROM raw.flights;"
        "TRANSFORM m.d AS SELECT carrier, n, rec_eff_time AS since FROM d.f;"
        "COLLECT raw.t (id KEY, at TIMESTAMP, x) FROM landing.t EVERY DAY BY ARRIVAL TIME TEMPORAL AT at;",
    )
    lineage = ColumnLineage(flow)
    assert lineage.columns("d.f") == ("carrier", "rec_eff_time", "n", "rec_exp_time", "rec_is_current")
    assert inputs(flow, "d.f", "n") == ["raw.flights.Air_Time"]
    assert inputs(flow, "d.f", "rec_is_current") == ["raw.flights.dep_delay"]
    assert inputs(flow, "m.d", "since") == ["d.f.rec_eff_time"]
    assert lineage.columns("raw.t") == ("id", "rec_eff_time", "x", "rec_exp_time", "rec_is_current")
    assert lineage.trace_column(ColumnOf("raw.t", "rec_eff_time")).note == "collected from landing.t"
    with pytest.raises(WaterclockError, match="has no column seq"):
        lineage.trace_column(ColumnOf("d.f", "seq"))


def test_without_a_time_of_their_own_versions_begin_at_the_window_s_end(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "TRANSFORM d.f (carrier KEY, *) TEMPORAL AS SELECT carrier, dep_delay FROM raw.flights;"
        "COLLECT raw.t (id KEY, x) FROM landing.t EVERY DAY TEMPORAL;",
    )
    assert ColumnLineage(flow).trace_column(ColumnOf("d.f", "rec_eff_time")).note.endswith("the end of its window")
    assert (
        ColumnLineage(flow)
        .trace_column(ColumnOf("raw.t", "rec_eff_time"))
        .note.endswith("the windows of its snapshots")
    )
    assert inputs(flow, "d.f", "dep_delay") == ["raw.flights.dep_delay"]


def test_a_column_of_a_union_by_name_has_the_inputs_of_each_query(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "TRANSFORM m.d PARTITIONED AS SELECT carrier, dep_delay AS n FROM raw.flights UNION ALL BY NAME "
        "SELECT seats AS N, tailnum FROM raw.planes UNION ALL BY NAME SELECT air_time AS n FROM raw.flights;",
    )
    lineage = ColumnLineage(flow)
    assert lineage.columns("m.d") == ("carrier", "n", "tailnum")
    assert inputs(flow, "m.d", "n") == ["raw.flights.Air_Time", "raw.flights.dep_delay", "raw.planes.seats"]
    assert inputs(flow, "m.d", "tailnum") == ["raw.planes.tailnum"]
    assert [str(each.column) for each in lineage.trace_downstream(ColumnOf("raw.planes", "seats")).beyond] == ["m.d.n"]


MODEL = """
TRANSFORM d.city (code KEY, since TIMESTAMP, Name) TEMPORAL AT since
AS SELECT carrier AS code, timestamp_seconds(dep_delay) AS since, carrier AS Name FROM raw.flights;
TRANSFORM d.plane (tailnum KEY, seats INT, home REFERENCES d.city ROLE home AT at, at TIMESTAMP)
AS SELECT tailnum, seats, tailnum AS home, timestamp_seconds(seats) AS at FROM raw.planes;
TRANSFORM f.flight PARTITIONED (id, plane REFERENCES d.plane ROLE of)
AS SELECT carrier AS id, carrier AS plane FROM raw.flights;
"""


def test_the_columns_of_a_flat_read_are_those_of_the_tables_that_it_brings_together(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        MODEL + "TRANSFORM m.a AS SELECT f.*, name_home_of AS n, upper(seats_of) AS s FROM FLAT(f.flight) f;",
    )
    lineage = ColumnLineage(flow)
    assert lineage.columns("m.a") == ("id", "plane", "seats_of", "home_of", "at_of", "Name_home_of", "n", "s")
    assert inputs(flow, "m.a", "n") == ["d.city.Name"]
    assert inputs(flow, "m.a", "s") == ["d.plane.seats"]
    assert inputs(flow, "m.a", "plane") == ["f.flight.plane"]
    assert [str(each.column) for each in lineage.trace_downstream(ColumnOf("d.city", "Name"), depth=1).beyond] == [
        "m.a.Name_home_of",
        "m.a.n",
    ]


def test_known_columns_of_a_flat_read_are_followed_where_some_are_not_known(tmp_path: Path) -> None:
    model = MODEL.replace("(tailnum KEY, seats INT, home", "(tailnum KEY, home").replace(
        "at TIMESTAMP)", "at TIMESTAMP, *)"
    )
    model = model.replace("AS at FROM raw.planes", "AS at, p.* FROM raw.planes p")
    flow = flow_of(tmp_path, model + "TRANSFORM m.a AS SELECT * FROM FLAT(f.flight);")
    assert inputs(flow, "m.a", "name_home_of") == ["d.city.Name"]
    assert ColumnLineage(flow).trace_column(ColumnOf("m.a", "engines_of")).note == "through *"


def test_a_declared_column_of_undetermined_origin_is_not_known(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "TRANSFORM m.wide PARTITIONED (one INT, two INT) AS SELECT * FROM "
        "(SELECT carrier, dep_delay FROM raw.flights) PIVOT (max(dep_delay) FOR carrier IN ('A' AS one, 'B' AS two));",
    )
    assert ColumnLineage(flow).trace_column(ColumnOf("m.wide", "one")).note.startswith("not known")
    with pytest.raises(WaterclockError, match="has no column three"):
        ColumnLineage(flow).trace_column(ColumnOf("m.wide", "three"))
