from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.dpl.python.collected_values import CodeFindings, inspect_code


def look(folder: Path, body: str, *, more: str = "", helper: str = "") -> CodeFindings:
    (folder / "flows").mkdir(exist_ok=True)
    (folder / "helper.py").write_text(helper)
    code = f"from pyspark.sql import functions as F\n{more}\ndef f(t, u):\n    {body}\n"
    (folder / "flows" / "a.py").write_text(code)
    return inspect_code(folder, "flows/a.py", "f")


@pytest.mark.parametrize(
    ("body", "collecting_calls"),
    [
        ("return t.withColumn('x', F.lit(u.first()[0]))", ("first() in flows/a.py:4",)),
        ("return t.withColumn('x', F.lit(u.head(1)[0][0]))", ("head() in flows/a.py:4",)),
        ("return t.limit(u.count())", ("count() in flows/a.py:4",)),
        ("return t.where(t.x.isin([r.x for r in u.collect()]))", ("collect in flows/a.py:4",)),
        ("return t.rdd.map(str).toDF()", ("rdd in flows/a.py:4",)),
        ("return t.localCheckpoint()", ("localCheckpoint in flows/a.py:4",)),
        ("return t.limit(int(t.corr('a', 'b')))", ("corr() in flows/a.py:4",)),
        ("return t.groupBy('a').count()", ()),
        ("return t.agg(F.first('x'), F.count('*'), F.corr('a', 'b'))", ()),
    ],
)
def test_calls_that_collect_values_into_python_are_reported_with_their_position(
    tmp_path: Path, body: str, collecting_calls: tuple[str, ...]
) -> None:
    assert look(tmp_path, body).collecting_calls == collecting_calls


def test_only_functions_used_by_the_transform_are_searched_for_collecting_calls(tmp_path: Path) -> None:
    own = "def limit(u):\n    return u.tail(1)\n\ndef other(u):\n    return u.collect()\n"
    assert look(tmp_path, "return t.limit(limit(u)[0][0])", more=own).collecting_calls == ("tail in flows/a.py:3",)
    helper = "def least(u):\n    return u.toPandas().x.min()\n"
    said = look(tmp_path, "from helper import least\n    return t.where(t.x > least(u))", helper=helper)
    assert said.collecting_calls == ("toPandas in helper.py:2",)


def test_code_that_may_branch_is_detected(tmp_path: Path) -> None:
    assert not look(tmp_path, "return t.join(u, 'id')").may_branch
    assert look(tmp_path, "return t if t.columns else u").may_branch
    assert look(tmp_path, "return [t, u][len(t.columns) and 1]").may_branch
    assert look(tmp_path, "from helper import g\n    return g(t)", helper="def g(t):\n    if t: return t\n").may_branch


def test_code_that_cannot_be_read_counts_as_collecting_values(tmp_path: Path) -> None:
    assert inspect_code(tmp_path, "flows/a.py", "f").collecting_calls
    look(tmp_path, "return t")
    assert inspect_code(tmp_path, "flows/a.py", "g").collecting_calls == ("g in flows/a.py, which is not found there",)
