from __future__ import annotations

from pathlib import Path

import pytest

from tests.lineages import CASES, T, U
from tests.unit.dpl.query.test_column_flow import lineage_of
from tests.unit.dpl.query.test_lineage import PYTHON, flow_of
from waterclock.dpl.query.column_trace import UNKNOWN_ORIGIN, ColumnOf
from waterclock.dpl.query.impact import Impact, impact_of
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.flow.code_lineage import COMPUTED, CodeLineage, Origin


def impacts(folder: Path, transforms: str, column: str = "dep_delay", table: str = "raw.flights") -> dict[str, Impact]:
    lineage = ColumnLineage(flow_of(folder, transforms))
    return {each.table: each for each in impact_of(lineage, ColumnOf(table, column))}


@pytest.mark.parametrize(
    ("query", "columns", "uses"),
    [
        ("SELECT carrier, dep_delay FROM raw.flights", {"dep_delay": "copied"}, set()),
        ("SELECT dep_delay AS late FROM raw.flights", {"late": "copied"}, set()),
        ("SELECT dep_delay * 2 AS x, carrier FROM raw.flights", {"x": "computed"}, set()),
        ("SELECT carrier FROM raw.flights WHERE dep_delay > 1", {}, {"filter"}),
        ("SELECT carrier, count(*) AS n FROM raw.flights GROUP BY carrier HAVING max(dep_delay) > 1", {}, {"filter"}),
        ("SELECT count(*) AS n FROM raw.flights GROUP BY dep_delay", {}, {"group"}),
        ("SELECT carrier FROM raw.flights QUALIFY row_number() OVER (ORDER BY dep_delay) = 1", {}, {"window"}),
        (
            "SELECT f.carrier, p.seats FROM raw.flights f JOIN raw.planes p ON p.seats = f.dep_delay",
            {},
            {"join"},
        ),
        ("SELECT p.seats FROM raw.flights f JOIN raw.planes p ON p.dep_delay = f.carrier", {}, set()),
        ("SELECT f.carrier FROM raw.flights f JOIN raw.planes p USING (dep_delay)", {}, {"join"}),
        (
            "WITH c AS (SELECT carrier, dep_delay AS d FROM raw.flights) SELECT carrier FROM c WHERE d > 1",
            {},
            {"value"},
        ),
        ("SELECT max(dep_delay) AS x FROM raw.flights WHERE dep_delay > 1", {"x": "computed"}, {"filter"}),
        ("SELECT carrier, count(*) AS n FROM raw.flights GROUP BY carrier", {}, set()),
        ("SELECT * EXCEPT (dep_delay) FROM raw.flights", {}, set()),
        ("SELECT * FROM raw.flights", {"dep_delay": "copied"}, set()),
    ],
)
def test_how_a_query_depends_on_a_column(tmp_path: Path, query: str, columns: dict[str, str], uses: set[str]) -> None:
    found = impacts(tmp_path, f"TRANSFORM m.d PARTITIONED AS {query};")
    if not columns and not uses:
        assert found == {}
        return
    assert found["m.d"].columns == columns
    assert found["m.d"].uses == uses
    assert found["m.d"].is_sure


def test_who_reads_rows_that_a_column_chooses_depends_on_it(tmp_path: Path) -> None:
    found = impacts(
        tmp_path,
        "TRANSFORM m.a PARTITIONED AS SELECT carrier FROM raw.flights WHERE dep_delay > 1;"
        "TRANSFORM m.b PARTITIONED AS SELECT count(*) AS n FROM m.a; PUBLISH m.b TO out.b.b;",
    )
    assert found["m.b"].uses == {"rows"}
    assert found["m.b"].through == {"m.a"}
    assert found["out.b.b"].uses == {"rows"}


@pytest.mark.parametrize(
    "header",
    [
        "(carrier, d INT ELSE DROP)",
        "(carrier, d INT NOT NULL ELSE QUARANTINE)",
        "(carrier, d INT EXPECT (d > 0) ELSE DROP)",
        "(carrier, d INT KEY ELSE DROP)",
        "(carrier KEY ORDER BY d ELSE DROP, d INT)",
        "EXPECT d > 0 ELSE QUARANTINE AT MOST 1 PERCENT ELSE HOLD",
        "EVERY DAY MERGE ON (d)",
        "EVERY DAY MERGE ON (carrier) ORDER BY d",
        "EVERY DAY MERGE ON (carrier) DELETE WHEN d > 0",
        "EVERY DAY TEMPORAL ON (carrier)",
        "EVERY DAY TEMPORAL ON (carrier) TRACK (d)",
    ],
)
def test_readers_depend_on_a_column_by_which_a_table_chooses_its_rows(tmp_path: Path, header: str) -> None:
    kind = "" if "EVERY" in header else "PARTITIONED "
    found = impacts(
        tmp_path,
        f"TRANSFORM m.a {kind}{header} AS SELECT carrier, dep_delay AS d FROM raw.flights;"
        "TRANSFORM m.b EVERY DAY AS SELECT carrier FROM m.a;",
    )
    assert found["m.a"].columns == {"d": "copied"}
    assert found["m.b"].uses == {"rows"}


@pytest.mark.parametrize(
    "header",
    [
        "(carrier KEY, d INT NOT NULL)",
        "EXPECT d > 0 ELSE HOLD",
        "EXPECT d > 0 ELSE WARN",
        "(carrier NOT NULL ELSE DROP, d INT)",
    ],
)
def test_rules_that_remove_no_row_make_no_reader_depend_on_their_columns(tmp_path: Path, header: str) -> None:
    found = impacts(
        tmp_path,
        f"TRANSFORM m.a PARTITIONED {header} AS SELECT carrier, dep_delay AS d FROM raw.flights;"
        "TRANSFORM m.b EVERY DAY AS SELECT carrier FROM m.a;",
    )
    assert "m.b" not in found


def test_a_window_depends_on_the_columns_by_which_its_books_are_closed(tmp_path: Path) -> None:
    closed = "TRANSFORM m.a PARTITIONED CLOSE WHEN {} AS SELECT carrier FROM UNTIL(raw.flights, '1 day');"
    for condition in ("max(dep_delay) > 9", "watermark(timelabel, dep_delay) >= WINDOW_END()"):
        assert impacts(tmp_path, closed.format(condition))["m.a"].uses == {"rows"}
    assert impacts(tmp_path, closed.format("count(*) > 9")) == {}


def test_a_column_that_was_computed_once_is_computed_from_then_on(tmp_path: Path) -> None:
    found = impacts(
        tmp_path,
        "TRANSFORM m.a PARTITIONED AS SELECT carrier, dep_delay + 1 AS d FROM raw.flights;"
        "TRANSFORM m.b PARTITIONED AS SELECT d FROM m.a;",
    )
    assert found["m.b"].columns == {"d": "computed"}


def test_an_opaque_transform_and_its_dependents_may_read_the_column(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "worst.py").write_text(PYTHON)
    found = impacts(
        tmp_path,
        "TRANSFORM m.top PARTITIONED AS SELECT count(*) AS n FROM m.worst;"
        "TRANSFORM m.all PARTITIONED AS SELECT seats FROM (SELECT * FROM raw.planes);",
    )
    assert found["m.worst"].uses == {"may read"}
    assert found["m.worst"].why == {"worst() cannot be looked into"}
    assert not found["m.worst"].is_sure
    assert found["m.top"].uses == {"may read"}
    assert found["m.top"].why == {"m.worst may read it"}
    found = impacts(tmp_path, "TRANSFORM m.all PARTITIONED AS SELECT seats FROM (SELECT * FROM raw.planes);",
                    "tailnum", "raw.planes")  # fmt: skip
    assert found["m.all"].uses == {"may read"}


def test_columns_of_unknown_origin_may_depend_on_the_column(tmp_path: Path) -> None:
    found = impacts(
        tmp_path,
        "TRANSFORM m.wide PARTITIONED (one INT, two INT) AS SELECT * FROM "
        "(SELECT carrier, dep_delay FROM raw.flights) PIVOT (max(dep_delay) FOR carrier IN ('A' AS one, 'B' AS two));"
        "TRANSFORM m.one PARTITIONED AS SELECT one FROM m.wide;",
    )
    assert found["m.wide"].columns == {"one": "may read", "two": "may read"}
    assert found["m.one"].columns == {"one": "may read"}


def test_impact_follows_a_publish_to_the_collects_that_read_its_destination(tmp_path: Path) -> None:
    found = impacts(
        tmp_path,
        "PUBLISH raw.flights TO out.flights.csv; CREATE CONNECTION db TYPE sqlite OPTIONS (path 'a.db');"
        "PUBLISH raw.flights TO db.flights; COLLECT back.flights (carrier, dep_delay INT) FROM db.flights EVERY DAY;"
        "TRANSFORM m.z AS SELECT avg(dep_delay) AS late FROM back.flights;",
    )
    assert found["db.flights"].columns == {"dep_delay": "copied"}
    assert found["back.flights"].columns == {"dep_delay": "copied"}
    assert found["back.flights"].through == {"db.flights"}
    assert found["m.z"].columns == {"late": "computed"}


def test_hints_of_a_publish_to_a_form_do_not_affect_its_rows(tmp_path: Path) -> None:
    found = impacts(
        tmp_path,
        "CREATE CONNECTION forms TYPE forms; PUBLISH raw.flights (carrier, dep_delay) TO forms.late MERGE ON (carrier);"
        "COLLECT mdm.late (carrier KEY, dep_delay INT) FROM forms.late EVERY DAY;",
    )
    assert found["forms.late"].columns == {"dep_delay": "copied"}
    assert "mdm.late" not in found or not found["mdm.late"].columns


def test_a_table_that_reads_itself_is_listed_once(tmp_path: Path) -> None:
    found = impacts(
        tmp_path,
        "TRANSFORM m.sum (total BIGINT) START '2024-01-01' AS "
        "SELECT sum(dep_delay) + coalesce(max(p.total), 0) AS total FROM raw.flights, PREVIOUS(m.sum) p;",
    )
    assert found["m.sum"].columns == {"total": "computed"}


UNTOLD_QUERIES = (
    "SELECT x FROM raw.u a JOIN raw.u b ON a.id = b.id",
    "SELECT v AS x FROM raw.t UNION ALL SELECT * FROM raw.u",
    "SELECT * FROM raw.t NATURAL JOIN raw.u",
    "SELECT t.v FROM raw.t NATURAL JOIN raw.u",
    "SELECT u.*, s.* FROM raw.t, raw.u",
)


@pytest.mark.parametrize(
    ("query", "open_u"),
    [*((query, False) for query in CASES), *((query, True) for query in (*CASES, *UNTOLD_QUERIES))],
)
def test_no_column_that_a_query_rests_on_is_without_impact(tmp_path: Path, query: str, *, open_u: bool) -> None:
    lineage = lineage_of(tmp_path, query, open_u=open_u)
    rests: dict[ColumnOf, set[str]] = {}
    is_untold = False
    for name, made in lineage.trace_table("m.x").items():
        is_untold = is_untold or made.note == UNKNOWN_ORIGIN
        for each in made.inputs:
            rests.setdefault(each, set()).add(name)
    read = {each.table for each in lineage.flow.tables["m.x"].reads}
    for table, columns in (("raw.t", T), ("raw.u", {} if open_u else U)):
        for column in columns if table in read else ():
            of = ColumnOf(table, column)
            found = {each.table: each for each in impact_of(lineage, of)}
            if of in rests:
                assert set(found["m.x"].columns) >= rests[of] - {"*"}, of
            if is_untold:
                assert found["m.x"].uses or found["m.x"].columns, of


def test_impact_through_a_python_transform_uses_its_recorded_plan_lineage(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "worst.py").write_text(PYTHON)
    flow = flow_of(tmp_path, "TRANSFORM m.e PARTITIONED AS SELECT late AS l, airport AS a, far AS f FROM m.worst;")
    delay, origin, distance = (("raw.flights", name) for name in ("dep_delay", "origin", "distance"))
    plan = CodeLineage(
        {
            "airport": Origin(frozenset({origin})),
            "late": Origin(frozenset({delay}), how=COMPUTED),
            "far": Origin(frozenset(), frozenset({distance}), COMPUTED, frozenset({"mapInPandas"})),
        },
        {"group": frozenset({origin}), "may read": frozenset({distance})},
    )
    lineage = ColumnLineage(flow, of_code={"m.worst": plan})

    def of(column: str) -> dict[str, Impact]:
        return {each.table: each for each in impact_of(lineage, ColumnOf("raw.flights", column))}

    assert of("dep_delay")["m.worst"] == Impact("m.worst", {"late": "computed"}, set(), {"raw.flights"})
    assert of("dep_delay")["m.e"].columns == {"l": "computed"}
    assert of("origin")["m.worst"] == Impact("m.worst", {"airport": "copied"}, {"group"}, {"raw.flights"})
    assert of("origin")["m.e"].uses == {"rows"}
    assert not of("distance")["m.worst"].is_sure
    assert of("distance")["m.worst"].columns == of("distance")["m.worst"].columns | {"far": "may read"}
    assert of("distance")["m.worst"].why == {"mapInPandas cannot be looked into"}
    assert of("distance")["m.e"].columns == {"f": "may read"}
    assert of("carrier") == {}
