from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import waterclock as wc
from waterclock.timelabel.window import Window


def test_a_run_with_nothing_to_do_loads_no_spark_and_no_delta() -> None:
    code = (
        "import sys, waterclock.engine.runner, waterclock.cli.actions.run\n"
        "print([name for name in ('deltalake', 'pyarrow', 'numpy', 'pandas', 'pyspark') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_every_public_name_is_there() -> None:
    assert sorted(wc.__all__) == sorted(set(wc.__all__)) == dir(wc)
    assert all(getattr(wc, name) is not None for name in wc.__all__)
    assert wc.Window is Window
    with pytest.raises(AttributeError, match="has no attribute 'colect'"):
        wc.colect  # noqa: B018


def test_dataframe_is_pyspark_s_as_soon_as_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark.sql", raising=False)
    assert wc.DataFrame.__module__ == "waterclock.dpl.python.decorators"
    pyspark = ModuleType("pyspark.sql")
    pyspark.DataFrame = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark.sql", pyspark)
    assert wc.DataFrame is dict  # type: ignore[comparison-overlap]


def test_the_language_is_loaded_only_when_it_is_used() -> None:
    code = (
        "import sys, waterclock as wc\nbefore = {'sqlglot', 'waterclock.dpl'} & set(sys.modules)\n"
        "wc.collect('raw.a')\nprint(sorted(before), 'waterclock.dpl' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[] True\n"
