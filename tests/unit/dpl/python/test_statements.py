from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TypeVar

import waterclock as wc
from waterclock.dpl.python.statements import load_python
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.statements import (
    ParsedBatching,
    ParsedColumnList,
    ParsedMode,
    ParsedOptions,
    Statement,
    StatementKind,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Argument, Flat, PythonFunction, Read, Secret, Value
from waterclock.flow.enums import Batching, Mode, ReadKind, TableType
from waterclock.timelabel.duration import Duration

T = TypeVar("T")
HEAD = "from __future__ import annotations\n\nimport waterclock as wc\n"
VARIABLES: dict[str, Value] = {"late_minutes": 15, "path": "data/ops.sqlite", "keep": "90 days"}


def load(root: Path, text: str, **modules: str) -> tuple[list[Statement], list[WaterclockError]]:
    """Load `flows/a.py`; `modules` are the files next to it."""
    (root / "flows").mkdir(exist_ok=True)
    for name, body in modules.items():
        (root / "flows" / f"{name}.py").write_text(HEAD + body, encoding="utf-8")
    path = root / "flows" / "a.py"
    path.write_text(HEAD + text, encoding="utf-8")
    return load_python(path, root=root, variables=VARIABLES)


def accepted(root: Path, text: str, **modules: str) -> list[Statement]:
    statements, errors = load(root, text, **modules)
    assert errors == []
    return statements


def value_of(said: Statement, word: str, kind: type[T]) -> T:
    value = said.value(word, kind)
    assert value is not None
    return value


def function_of(said: Statement) -> PythonFunction:
    assert said.function is not None
    return said.function


def refused(root: Path, text: str, **modules: str) -> list[str]:
    return [f"{error.code} {error.what} {error.where}" for error in load(root, text, **modules)[1]]


def test_a_call_is_read_by_the_parser_of_dpl(tmp_path: Path) -> None:
    [said] = accepted(
        tmp_path,
        'wc.collect("raw.planes", from_="ops.planes", columns="tailnum KEY, *", every="day",\n'
        '           by="data time updated_at lookback 3 days", mode="merge order by updated_at", partitioned=False,\n'
        '           retain=":keep", comment=None, sequential=True, tags=["a", "b"])\n',
    )
    assert (said.kind, said.name, str(said.span.place)) == (StatementKind.COLLECT, "raw.planes", "flows/a.py:4:13")
    assert said.value("BY", ParsedBatching) == ParsedBatching(Batching.DATA_TIME, "updated_at", Duration(3, "DAY"))
    assert said.value("MODE", ParsedMode) == ParsedMode(Mode.MERGE, (), ("updated_at",))
    assert said.value("RETAIN", Duration) == Duration(90, "DAY")
    assert said.value("TAGS", tuple) == ("a", "b")
    assert [column.name for column in value_of(said, "COLUMNS", ParsedColumnList).columns] == ["tailnum"]
    assert said.clause("TYPE OF TABLE") is None
    assert said.clause("COMMENT") is None


def test_options_are_a_dict_with_secrets_and_variables_or_a_text(tmp_path: Path) -> None:
    first, second = accepted(
        tmp_path,
        'wc.connection("a", type="sqlite", options={"path": wc.var("path"), "timeout": 5, "auth.token": wc.secret("t"),'
        ' "user": None})\n'
        'wc.connection("b", type="sqlite", options="(path :path, timeout 5, auth.token SECRET \'t\')")\n',
    )
    values = {"path": "data/ops.sqlite", "timeout": 5, "auth.token": Secret("t")}
    assert value_of(first, "OPTIONS", ParsedOptions).values == values
    assert value_of(second, "OPTIONS", ParsedOptions).values == values


def test_a_plain_text_needs_no_quotes_and_may_hold_some(tmp_path: Path) -> None:
    texts = ["late", "'late'", '"late"', "'late' is late", "it's late", ": late", "-- late", ""]
    statements = accepted(
        tmp_path, "".join(f'wc.view("v.v", as_="SELECT 1 AS a", comment={text!r})\n' for text in texts)
    )
    wanted = ["late", "late", "late", "'late' is late", "it's late", ": late", "-- late", ""]
    assert [said.value("COMMENT", str) for said in statements] == wanted


def test_the_parameters_of_a_function_declare_its_inputs(tmp_path: Path) -> None:
    [said] = accepted(
        tmp_path,
        'from waterclock import Window\n@wc.transform("marts.a", regular=True, every="day")\n'
        'def a(t=wc.table("raw.t"), p=wc.past("raw.t", "7 days"), h=wc.history(name="raw.t"), q=wc.previous("raw.t"),\n'
        '      n=wc.latest("raw.t"), *, v=wc.var("late_minutes"), window, w: wc.Window, x: Window): ...\n',
    )
    assert said.function is not None
    assert said.function.arguments == (
        Argument("t", read=Read("raw.t")),
        Argument("p", read=Read("raw.t", ReadKind.PAST, Duration(7, "DAY"))),
        Argument("h", read=Read("raw.t", ReadKind.HISTORY)),
        Argument("q", read=Read("raw.t", ReadKind.PREVIOUS)),
        Argument("n", read=Read("raw.t", ReadKind.LATEST)),
        Argument("v", variable="late_minutes"),
        Argument("window", is_window=True),
        Argument("w", is_window=True),
        Argument("x", is_window=True),
    )
    assert (said.function.file, said.function.name, str(said.function.place)) == ("flows/a.py", "a", "flows/a.py:6:1")
    assert said.function.source.startswith('@wc.transform("marts.a"')
    assert said.value("TYPE OF TABLE", TableType) is TableType.REGULAR


def test_flat_is_a_read_and_exact_a_flag(tmp_path: Path) -> None:
    text = '@wc.transform("marts.a")\ndef a(f=wc.flat("raw.t"), g=wc.flat(name="raw.t", exact=True)): ...\n'
    [said] = accepted(tmp_path, text)
    assert function_of(said).arguments == (
        Argument("f", flat=Flat(Read("raw.t"))),
        Argument("g", flat=Flat(Read("raw.t"), is_exact=True)),
    )
    wrong = '@wc.transform("marts.a")\ndef a(f=wc.flat("raw.t", exact="exact")): ...\n'
    assert refused(tmp_path, wrong) == ["E251 exact is 'exact', not True or False flows/a.py:5:9"]


def test_a_window_that_is_imported_for_type_checkers_alone_is_one(tmp_path: Path) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from waterclock import Window\n"
    [said] = accepted(tmp_path, text + '@wc.transform("marts.a", every="day")\ndef a(w: Window): ...\n')
    assert function_of(said).arguments == (Argument("w", is_window=True),)
    assert refused(tmp_path, '@wc.transform("marts.a", every="day")\ndef a(window: int = 3): ...\n') == [
        "E253 parameter window is not an input, a variable or the window flows/a.py:5:7"
    ]


def test_a_loop_and_a_function_of_another_file_make_tables(tmp_path: Path) -> None:
    statements, errors = load(
        tmp_path,
        "from flows.many import daily\nfor name in ('a', 'b'):\n    daily(name)\n"
        "    wc.view(f'v.{name}', as_='SELECT 1 AS o')\n"
        "common = {'every': 'fortnight'}\nwc.collect('raw.c', from_='ops.c', **common)\n",
        many="def daily(name: str) -> None:\n    wc.collect(f'raw.{name}', from_=f'ops.{name}', every='dya')\n",
    )
    assert [said.name for said in statements] == ["raw.a", "v.a", "raw.b", "v.b", "raw.c"]
    assert [str(said.span.place) for said in statements[:2]] == ["flows/many.py:5:16", "flows/a.py:7:13"]
    assert [error.where for error in errors] == ["flows/many.py:5:59"] * 2 + ["flows/a.py:9:1"]


def test_one_body_may_make_many_tables(tmp_path: Path) -> None:
    statements = accepted(
        tmp_path,
        "for name in ('a', 'b'):\n    @wc.transform(f'marts.{name}', every='day')\n"
        "    def made(rows=wc.table(f'raw.{name}')): return rows\n"
        "@wc.transform('marts.c')\n@wc.transform('marts.d', comment='two of one')\n"
        "def other(rows=wc.table('raw.a')): return rows\n",
    )
    functions = [function_of(said) for said in statements]
    assert [function.name for function in functions] == ["made", "made", "other", "other"]
    assert [function.arguments[0].read for function in functions[:2]] == [Read("raw.a"), Read("raw.b")]
    assert functions[2].fingerprint == functions[3].fingerprint


def test_user_defined_decorators_can_be_combined_with_waterclocks(tmp_path: Path) -> None:
    own = (
        "import functools\ndef own(f):\n    @functools.wraps(f)\n    def run(*a, **k): return f(*a, **k)\n"
        "    return run\ndef plain(f):\n    return lambda: f()\n"
    )
    statements = accepted(
        tmp_path,
        "from flows.own import own\n@own\n@wc.transform('m.a')\ndef a(rows=wc.table('raw.a')): return rows\n"
        "@wc.transform('m.b')\n@own\ndef b(rows=wc.table('raw.a')): return rows\n",
        own=own,
    )
    assert [function_of(said).arguments for said in statements] == [(Argument("rows", read=Read("raw.a")),)] * 2
    assert refused(tmp_path, "from flows.own import plain\n@wc.transform('m.b')\n@plain\ndef b(): ...\n", own=own) == [
        "E252 plain.<lambda> is defined inside another function flows/a.py:5:16"
    ]


def test_a_file_that_is_imported_declares_nothing_a_second_time(tmp_path: Path) -> None:
    b = "wc.collect('raw.b', from_='ops.b', every='day')\ndef name(one: str) -> str:\n    return f'raw.{one}'\n"
    text = "from flows.b import name\nwc.collect(name('a'), from_='ops.a', every='day')\n"
    assert [said.name for said in accepted(tmp_path, text, b=b)] == ["raw.a"]


def test_all_errors_in_a_file_are_reported_and_valid_statements_are_kept(tmp_path: Path) -> None:
    statements, errors = load(
        tmp_path,
        "wc.collect('raw.a', from_='ops.a', every='dya', by='data tim at')\nwc.collect('b', from_='ops.a')\n"
        "wc.publish('raw.a', to='out.a', evry='day')\nwc.view('v.v', as_='SELECT 1 AS a')\nwc.view('v.w')\n"
        "@wc.transform('m.a')\n@(1 / 0)\ndef a(): ...\n",
    )
    assert sorted(f"{error.code} {error.where}" for error in errors) == [
        "E102 flows/a.py:4:43",
        "E204 flows/a.py:4:58",
        "E205 flows/a.py:6:33",
        "E211 flows/a.py:5:13",
        "E250 flows/a.py:10:3",
    ]
    assert [(said.name, sorted(said.failed)) for said in statements] == [
        ("raw.a", ["BY", "EVERY"]),
        ("raw.a", ["?"]),
        ("v.v", []),
        ("v.w", ["AS"]),
        ("m.a", ["AS"]),
    ]


def test_an_argument_of_another_statement_has_the_fix_of_its_clause_in_dpl(tmp_path: Path) -> None:
    calls = (
        'wc.view("a.b", as_="SELECT 1 AS n", every="day", expect="n > 0", was="a.c")\n'
        'wc.publish("a.b", to="ops.b", retain="3 days", shared=True)\n'
    )
    dpl = """
    CREATE VIEW a.b EVERY DAY EXPECT n > 0 WAS a.c AS SELECT 1 AS n;
    PUBLISH a.b TO ops.b RETAIN 3 DAYS SHARED;
    """
    in_python, in_dpl = load(tmp_path, calls)[1], parse_text(SourceText("a.dpl", dpl), variables={})[1]
    assert len(in_dpl) == 5
    assert [(error.code, error.fix) for error in in_python[:-1]] == [(error.code, error.fix) for error in in_dpl[:-1]]
    assert (in_python[-1].fix, in_dpl[-1].fix) == ("leave shared out", "leave SHARED out")


def test_functions_for_queries_have_the_types_of_their_annotations(tmp_path: Path) -> None:
    statements = accepted(
        tmp_path,
        "import datetime as dt\nfrom decimal import Decimal\nfrom typing import Optional\n"
        '@wc.function("f")\ndef f(a: int | None, b: Optional[float], c: str, d: bool,\n'
        "      e: bytes, g: dt.date, h: dt.datetime) -> int: ...\n"
        '@wc.function("g", parameters="a DECIMAL(10,2), b ARRAY<STRING>", returns="DECIMAL(16,2)")\n'
        "def g(a: Decimal, b: list[str]) -> Decimal: ...\n"
        'wc.function("h", returns="DOUBLE", return_="3.14")\n',
    )
    types = "BIGINT DOUBLE STRING BOOLEAN BINARY DATE TIMESTAMP".split()
    f, g, h = (said.clauses[0].value for said in statements)
    assert f.parameters == tuple(zip("abcdegh", types, strict=True))
    assert (f.returns, f.body) == ("BIGINT", None)
    assert (g.parameters, g.returns) == ((("a", "DECIMAL(10,2)"), ("b", "ARRAY<STRING>")), "DECIMAL(16,2)")
    assert (h.parameters, h.body.text) == ((), "3.14")
    assert [said.function is None for said in statements] == [False, False, True]


def test_a_decorated_function_can_still_be_called_normally() -> None:
    @wc.transform("marts.a", evry="day")  # type: ignore[call-arg]  # no error while no file is loaded
    def half(rows: object = wc.table("raw.a"), *, by: int = 2) -> str:
        return f"{rows}/{by}"

    assert half("rows", by=3) == "rows/3"


def test_a_file_is_read_without_pyspark(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        HEAD + "@wc.transform('m.a')\ndef a(rows: wc.DataFrame = wc.table('raw.a')) -> wc.DataFrame: ...\n"
        "HINT = wc.DataFrame | None\n"
    )
    code = (
        "import sys\nfrom pathlib import Path\nfrom waterclock.dpl.python.statements import load_python\n"
        f"root = Path({str(tmp_path)!r})\nfound = load_python(root / 'a.py', root=root, variables={{}})\n"
        "print(len(found[0]), found[1], 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "1 [] False\n"
