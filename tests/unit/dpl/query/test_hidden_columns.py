"""Places where a query would return HIDDEN columns, and the text that is inserted to prevent it.

`tests/integration/engine/test_hidden_shapes.py` compares with Spark on tables without the columns.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES, SETTINGS
from waterclock.dpl.adhoc import adhoc_query
from waterclock.dpl.project import load_project
from waterclock.dpl.query.column_readers import readers_of
from waterclock.dpl.query.column_trace import ColumnOf
from waterclock.dpl.query.hidden_columns import exclude_columns_from_stars
from waterclock.dpl.query.impact import impact_of
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.dpl.query.splice import splice
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.flow.compatibility import Compatibility, Compatible
from waterclock.flow.declarations import Flow
from waterclock.flow.flats import flat_columns, flats_of

FLOW = """
CREATE CONNECTION landing TYPE files; CREATE CONNECTION ops TYPE sqlite; CREATE CONNECTION out TYPE files;
COLLECT s.u (id BIGINT KEY, city BIGINT REFERENCES s.w, a STRING, f STRING HIDDEN, g STRING HIDDEN, *)
  FROM ops.u EVERY DAY COMPATIBLE FULL;
COLLECT s.v (id BIGINT, f STRING) FROM ops.v EVERY DAY;
COLLECT s.w (id BIGINT KEY, name STRING, land BIGINT HIDDEN REFERENCES s.x, f STRING HIDDEN) FROM ops.w EVERY DAY;
COLLECT s.x (id BIGINT KEY, called STRING, f STRING HIDDEN) FROM ops.x EVERY DAY;
COLLECT s.p PARTITIONED (id BIGINT, at TIMESTAMP, f STRING HIDDEN, *) FROM ops.p EVERY 1 HOUR START '2024-01-01'
  BY DATA TIME at WATERMARK at 10 MINUTES;
COLLECT s.t (id BIGINT KEY, at TIMESTAMP HIDDEN, f STRING HIDDEN, b STRING) FROM ops.t EVERY DAY START '2024-01-01'
  BY DATA TIME at TEMPORAL AT at;
"""


def flow_of(root: Path, more: str = "", python: str = "") -> Flow:
    (root / "flows").mkdir(exist_ok=True)
    (root / "waterclock.toml").write_text(SETTINGS, encoding="utf-8")
    (root / "flows/known.dpl").write_text(FLOW + more, encoding="utf-8")
    (root / "flows/code.py").write_text(f"import waterclock as wc\n{python}", encoding="utf-8")
    return load_project(root, capabilities=CAPABILITIES).flow


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    return flow_of(tmp_path_factory.mktemp("hidden"))


def said(text: str, flow: Flow) -> str:
    return splice(adhoc_query(text, flow), lambda read: f"<{str(read)[2:]}>").text


U, U_F = "(SELECT * EXCEPT (`f`, `g`) FROM <u>)", "(SELECT * EXCEPT (`g`) FROM <u>)"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("SELECT id, f FROM s.u", "SELECT id, f FROM <u> AS `u`"),
        ("SELECT count(*) FROM s.u", "SELECT count(*) FROM <u> AS `u`"),
        ("SELECT count( * ), 2 * id FROM s.u", "SELECT count( * ), 2 * id FROM <u> AS `u`"),
        ("SELECT v.* FROM s.u JOIN s.v", "SELECT v.* FROM <u> AS `u` JOIN <v> AS `v`"),
        ("SELECT * FROM s.u", f"SELECT * FROM {U} AS `u`"),
        ("SELECT * FROM s.u x", f"SELECT * FROM {U} x"),
        ("SELECT 'f' AS t, * FROM s.u -- f", f"SELECT 'f' AS t, * FROM {U} AS `u`     "),
        ("SELECT f, * FROM s.u", f"SELECT f, * EXCEPT (`u`.`f`) FROM {U_F} AS `u`"),
        ("SELECT F, * EXCEPT (a) FROM s.u", f"SELECT F, * EXCEPT (a, `u`.`f`) FROM {U_F} AS `u`"),
        ("SELECT * EXCEPT (f) FROM s.u", f"SELECT * EXCEPT (f) FROM {U_F} AS `u`"),
        ("SELECT x.f, X.* FROM s.u AS x", f"SELECT x.f, X.* EXCEPT (`f`) FROM {U_F} AS x"),
        ("SELECT x.f, x.s.* FROM s.u AS x", "SELECT x.f, x.s.* FROM <u> AS x"),
        ("SELECT * FROM s.u JOIN s.v USING (f)", f"SELECT * FROM {U_F} AS `u` JOIN <v> AS `v` USING (f)"),
        ("SELECT id FROM s.u NATURAL JOIN s.v", f"SELECT id FROM {U} AS `u` NATURAL JOIN <v> AS `v`"),
        ("SELECT id FROM s.u t (id)", f"SELECT id FROM {U} t (id)"),
        ("FROM s.u SELECT f", f"FROM {U} AS `u` SELECT f"),
        (
            "SELECT f, * FROM s.u_held",
            f"SELECT f, * EXCEPT (`u_held`.`f`) FROM {U_F.replace('u', 'u_held')} AS `u_held`",
        ),
        ("SELECT * FROM s.u_quarantine", "SELECT * FROM <u_quarantine> AS `u_quarantine`"),
        ("SELECT * FROM s.t", "SELECT * FROM (SELECT * EXCEPT (`f`) FROM <t>) AS `t`"),
    ],
)
def test_a_star_brings_no_hidden_column(text: str, meant: str, flow: Flow) -> None:
    beside = {f"{name}{suffix}": name for name in flow.tables for suffix in ("_held", "_quarantine")}
    query = adhoc_query(text, flow, status_tables=beside)
    assert splice(query, lambda read: f"<{str(read)[2:]}>").text == meant


def test_a_name_beside_a_natural_join_is_refused(flow: Flow) -> None:
    with pytest.raises(ProjectErrors) as raised:
        adhoc_query("SELECT u.f FROM s.u NATURAL JOIN s.v", flow)
    assert [error.code for error in raised.value.errors] == ["E319"]


def test_flat_brings_its_own_to_who_names_them_and_none_of_parents(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, "TRANSFORM m.a AS SELECT f, * FROM FLAT(s.u);")
    query = flow.tables["m.a"].query
    assert query is not None
    [flat] = flats_of(query)
    columns = {name: tuple(each.name for each in table.columns.named) for name, table in flow.tables.items()}
    found = flat_columns(flat, columns.get)
    assert found is not None
    # land leads to further columns, so it is included
    assert [each.name for each in found] == ["id", "city", "a", "f", "g", "name", "land", "called"]
    assert splice(query, str).text == "SELECT f, * EXCEPT (`u`.`f`) FROM (SELECT * EXCEPT (`g`) FROM FLAT(s.u)) AS `u`"


def test_the_late_rows_table_hides_the_hidden_columns_of_its_input(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "TRANSFORM m.h PARTITIONED CLOSE WHEN watermark(at) >= WINDOW_END() MAX LATENESS 1 DAY "
        "AS SELECT id FROM UNTIL(s.p, '2 hours');",
    )
    late = flow.tables["m.h_late"]
    assert late.hidden_columns == ("f",)
    assert said("SELECT * FROM m.h_late", flow) == "SELECT * FROM (SELECT * EXCEPT (`f`) FROM <h_late>) AS `h_late`"


def test_a_temporal_table_does_not_track_a_hidden_column_unless_declared(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "TRANSFORM m.a (id BIGINT KEY, b STRING, f STRING HIDDEN) TEMPORAL TRACK (b, f) AS SELECT id, b, f FROM s.t;",
    )
    untracked = [table.temporal and table.temporal.untracked for table in (flow.tables["s.t"], flow.tables["m.a"])]
    assert untracked == [("f",), ()]
    assert flow.tables["s.t"].hidden_columns == ("f",)  # a version has no `at`


def test_a_star_in_a_rule_brings_no_hidden_column(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "TRANSFORM m.a (id, f HIDDEN, *) EXPECT count(DISTINCT *) = count(*) AS once OVER TABLE, f LIKE 'x' AS x, "
        "hash(* EXCEPT (a)) > 2 * id AS hashed AS SELECT id, f, * EXCEPT (id) FROM s.u;",
    )
    assert [rule.expression for rule in flow.tables["m.a"].rules] == [
        "count(DISTINCT * EXCEPT (`f`)) = count(*)", "f LIKE 'x'", "hash(* EXCEPT (a, `f`)) > 2 * id",
    ]  # fmt: skip


PYTHON = """
@wc.transform("m.code")
def code(u=wc.table("s.u")):
    return u

@wc.transform("m.asked")
def asked(u=wc.table("s.u", hidden=True)):
    return u
"""
READERS = """
TRANSFORM m.all AS SELECT * FROM s.u;
TRANSFORM m.named AS SELECT id, f FROM s.u;
TRANSFORM m.flat AS SELECT id, a FROM FLAT(s.u);
CREATE VIEW m.view AS SELECT * FROM s.u;
TRANSFORM m.viewed AS SELECT id FROM m.view;
PUBLISH s.u TO ops.all;
PUBLISH s.u (f, id) TO ops.named;
PUBLISH s.u (f, *) TO ops.both;
"""


def test_hiding_a_column_changes_the_code_only_of_readers_of_all_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = flow_of(tmp_path, READERS, PYTHON)
    monkeypatch.setitem(globals(), "FLOW", FLOW.replace("f STRING HIDDEN, g", "f STRING, g"))
    shown = flow_of(tmp_path, READERS, PYTHON)
    changed = {name for name, table in hidden.tables.items() if table.fingerprint != shown.tables[name].fingerprint}
    assert changed == {"m.all", "m.viewed", "m.code", "ops.all"}
    assert hidden.tables["s.u"].compatible == Compatibility(Compatible.FULL)  # and no check refuses it
    code, asked = (hidden.tables[name].function for name in ("m.code", "m.asked"))
    assert code is not None
    assert asked is not None
    assert [code.arguments[0].left_out, asked.arguments[0].left_out] == [("f", "g"), ()]


def test_lineage_through_a_star_excludes_hidden_columns(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, READERS + "TRANSFORM m.both AS SELECT f AS file, * FROM s.u;")
    lineage = ColumnLineage(flow)
    assert [str(each) for each in lineage.trace_column(ColumnOf("m.both", "file")).inputs] == ["s.u.f"]
    assert [str(each) for each in lineage.trace_column(ColumnOf("m.all", "a")).inputs] == ["s.u.a"]
    for table in ("m.all", "m.both", "ops.all"):
        with pytest.raises(WaterclockError, match="f"):
            lineage.trace_column(ColumnOf(table, "f"))
    known = ColumnLineage(flow, {"s.u": dict.fromkeys(("id", "city", "a", "f", "g"), "string")})
    assert known.columns("m.all") == ("id", "city", "a")
    assert known.columns("m.both") == ("file", "id", "city", "a")
    assert known.columns("ops.all") == ("id", "city", "a")
    for each in (lineage, known):
        told = {impact.table for impact in impact_of(each, ColumnOf("s.u", "f"))}
        assert told - {"m.flat"} == {"m.named", "m.both", "ops.named", "ops.both"}


def test_who_reads_all_reads_no_hidden_column(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, READERS)
    found = {reader.table.name: reader.how for reader in readers_of(flow, "s.u", "f")}
    by_name = dict.fromkeys(("m.named", "ops.named", "ops.both"), "by its name")
    assert found == {**by_name, "m.flat": "by FLAT"}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("struct(* EXCEPT (a))", "struct(* EXCEPT (a, `h`, `i j`))"),
        ("struct(* EXCEPT (a, `H`))", "struct(* EXCEPT (a, `H`, `i j`))"),
        ("struct(*)", "struct(* EXCEPT (`h`, `i j`))"),
        ("count(*) * 2", "count(*) * 2"),
    ],
)
def test_a_star_of_a_rule_that_leaves_out_others_brings_no_hidden_column(rule: str, said: str) -> None:
    assert exclude_columns_from_stars(rule, ["h", "i j"]) == said
