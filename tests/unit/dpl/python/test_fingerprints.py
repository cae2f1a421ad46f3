from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES
from waterclock.dpl.project import load_project
from waterclock.dpl.python.statements import load_python

SETTINGS = '[project]\nname = "shop"\n[env.dev]\n'
HEAD = "from __future__ import annotations\nimport waterclock as wc\n"
TEXT = """
from flows.rates import rate
import json

LIMIT = 5
OTHER = 6

def near(a):
    return a < LIMIT

@wc.transform("marts.a", every="day")
def a(rows=wc.table("raw.a")):
    return rows.where(near(rows.n) & (rows.m > rate()))
"""
RATES = "from flows import deep\nX = 1\nRATES = {}\ndef rate():\n    return deep.RATE\n"
DEEP = "RATE = 100\n"


def fingerprint(root: Path, text: str = TEXT, rates: str = RATES, deep: str = DEEP, **more: str) -> str:
    (root / "flows").mkdir(exist_ok=True)
    for name, body in {"a": HEAD + text, "rates": rates, "deep": deep, **more}.items():
        (root / "flows" / f"{name}.py").write_text(body, encoding="utf-8")
    statements, errors = load_python(root / "flows" / "a.py", root=root, variables={})
    assert errors == []
    assert statements[0].function is not None
    return statements[0].function.fingerprint


def changed(old: str, new: str, text: str = TEXT) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    "text",
    [
        changed("    return rows", '    """What it does."""\n\n    # and why\n    return rows'),
        changed("rows.where(near(rows.n) & (rows.m > rate()))", "(\n  rows.where(near(rows.n)&(rows.m>rate()))\n )"),
        changed('every="day"', 'every="day", comment="of another day"'),
        changed("OTHER = 6", "OTHER = 7"),
        changed("import json", "import csv"),
        changed("LIMIT = 5", "LIMIT = 0x5"),
        TEXT + '\n\nif __name__ == "__main__":\n    print(near, LIMIT)\n',
    ],
    ids=[
        "docstring and comment", "spacing", "what is declared", "an unused name", "an unused import",
        "a spelling", "main",
    ],
)  # fmt: skip
def test_changes_to_code_that_does_not_run_keep_the_fingerprint(text: str, tmp_path: Path) -> None:
    assert fingerprint(tmp_path, text) == fingerprint(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        changed("rows.m > rate()", "rows.m >= rate()"),
        changed("a < LIMIT", "a <= LIMIT"),
        changed("LIMIT = 5", "LIMIT = 6"),
        changed("def a(rows=", "def a(*, rows="),
        changed("OTHER = 6", "LIMIT += 1"),
    ],
    ids=["the body", "a function beside", "a value beside", "the parameters", "a value bound twice"],
)  # fmt: skip
def test_changes_to_code_that_runs_change_the_fingerprint(text: str, tmp_path: Path) -> None:
    assert fingerprint(tmp_path, text) != fingerprint(tmp_path)


CHANGES = """
from flows import deep

{}

class Kind:
    pass

def near(a):
    return a < RATES["usd"] + near.least + Kind.most + deep.RATE

near.least = Kind.most = 0

@wc.transform("marts.a", every="day")
def a(rows=wc.table("raw.a")):
    return rows.where(near(rows.n))
"""


@pytest.mark.parametrize(
    "change",
    [
        "RATES = {{}}\nRATES['usd'] = {}",
        "RATES = {{'usd': 1}}\nRATES['usd'] += {}",
        "RATES = {{}}\nRATES.update(usd={})",
        "RATES = {{}}\nfor name, rate in [('usd', {})]:\n    RATES[name] = rate",
        "def fill():\n    global RATES\n    RATES = {{'usd': {}}}\nfill()",
        "RATES = {{}}\ndeep.RATE = {}",
        "from flows.rates import RATES\nRATES.update(usd={})",
        "RATES = {{}}\ndef fill(rates):\n    rates['usd'] = {}\nfill(RATES)",
        "import heapq\nRATES = []\nheapq.heappush(RATES, {})",
        "RATES = {{}}\ndef load():\n    RATES['usd'] = {}\nload()",
        "RATES = {{}}\ndef load(usd=0):\n    RATES['usd'] = usd\nload({})",
        "RATES = {{}}\ndef fill():\n    RATES.update(usd={})\ndef load():\n    fill()\n    return 1\nN = load()",
        "RATES = {{}}\nclass Rates:\n    def load(self):\n        RATES['usd'] = {}\nrates = Rates()\nrates.load()",
        "RATES = {{}}\nr = RATES\nr['usd'] = {}",
        "RATES = {{}}\nr = s = RATES\nt = s\nt.update(usd={})",
        "RATES = r = {{}}\nr['usd'] = {}",
        "RATES = {{'eu': {{}}}}\nr = RATES.get('eu')\nr['usd'] = {}",
        "RATES = [{{}}]\nfor r in RATES:\n    r['usd'] = {}",
        "RATES = {{}}\nr, n = RATES, 1\nif (q := r):\n    q['usd'] = {}",
        "RATES = {{'eu': 1}}\nr: dict = 1 if RATES == 1 else RATES or 2\ndef fill():\n    r['usd'] = {}\nfill()",
        "RATES = {{}}\ndef fill():\n    r = RATES\n    r['usd'] = {}\nfill()",
        "RATES = {{}}\nr = deep\nr.RATE = {}",
        "RATES = {{}}\ndef add(it):\n    RATES[it.__name__] = it\n    return it\n@add\ndef usd():\n    return {}",
    ],
    ids=[
        "an item",
        "an item that grows",
        "a method",
        "in a loop",
        "a function",
        "a module's value",
        "an imported value",
        "an argument",
        "an argument of another module",
        "a function without arguments",
        "a function with another value",
        "a function that a function calls",
        "a method of an object",
        "by another name",
        "by the name of a name",
        "by a name of the same statement",
        "by the name of a part",
        "by a name in a loop",
        "by a name of several",
        "by another name in a function",
        "by a name of a function's own",
        "by another name of a module",
        "a decorator",
    ],
)
def test_statements_that_change_a_value_count(change: str, tmp_path: Path) -> None:
    one, two = (fingerprint(tmp_path, CHANGES.format(change.format(value))) for value in (1, 2))
    assert one != two
    other = CHANGES.format(change.format(1) + "\nOTHERS = {}\nOTHERS['usd'] = 1\nOTHERS.clear()")
    assert fingerprint(tmp_path, other) == one


@pytest.mark.parametrize("call", ["wc.view('a.b', as_=RATES)", "deep.declare('raw.a')", "print(OTHERS)"])
def test_calls_of_modules_and_declarations_do_not_count(call: str, tmp_path: Path) -> None:
    usual = CHANGES.format("RATES = 'SELECT 1 AS n'\nOTHERS = 1")
    deep = DEEP + "def declare(name): pass\n"
    assert fingerprint(tmp_path, usual + call, deep=deep) == fingerprint(tmp_path, usual, deep=deep)


@pytest.mark.parametrize(
    "body",
    [
        "return RATES[0]",
        "wc.view('a.b', as_=RATES)",
        "RATES = dict(OTHERS)\n    RATES['usd'] = 1",
        "r = list(RATES)\n    r[0] = 1",
        "r = RATES\n    r = r[0]",
        "OTHERS['usd'] = 1",
        "deep.declare(1)",
    ],
    ids=[
        "reads it",
        "declares",
        "a name of its own",
        "changes a copy",
        "reads it by another name",
        "changes another one",
        "a function of a module",
    ],
)
def test_calls_of_functions_that_do_not_change_a_value_do_not_count(body: str, tmp_path: Path) -> None:
    deep = DEEP + "def declare(name): pass\n"
    defined = CHANGES.format(f"RATES = 'SELECT 1 AS n'\nOTHERS = {{}}\ndef load():\n    {body}")
    usual = fingerprint(tmp_path, defined, deep=deep)
    assert fingerprint(tmp_path, f"{defined}\nload()\n", deep=deep) == usual


def test_values_of_a_function_and_of_a_class_count(tmp_path: Path) -> None:
    text = CHANGES.format("RATES = {}")
    assert fingerprint(tmp_path, text.replace("most = 0", "most = 1")) != fingerprint(tmp_path, text)


def test_a_module_counts_from_which_all_names_are_imported(tmp_path: Path) -> None:
    text = changed("from flows.rates import rate", "from flows.rates import *")
    usual = fingerprint(tmp_path, text)
    assert fingerprint(tmp_path, text, rates=changed("X = 1", "X = 2", RATES)) != usual
    assert fingerprint(tmp_path, text, deep="RATE = 200\n") != usual


def test_modules_of_the_project_count_and_those_that_they_import(tmp_path: Path) -> None:
    usual = fingerprint(tmp_path)
    assert fingerprint(tmp_path, rates="# a comment\n" + RATES) == usual
    assert fingerprint(tmp_path, rates=changed("X = 1", "X = 2", RATES)) != usual
    assert fingerprint(tmp_path, deep="RATE = 101\n") != usual


@pytest.mark.parametrize("statement", ["from flows import rates", "from .rates import rate", "import flows.rates as r"])
def test_modules_count_however_and_wherever_they_are_imported(statement: str, tmp_path: Path) -> None:
    text = f'@wc.transform("marts.a", every="day")\ndef a(rows=wc.table("raw.a")):\n    {statement}\n    return rows\n'
    assert fingerprint(tmp_path, text) == fingerprint(tmp_path, text)
    assert fingerprint(tmp_path, text) != fingerprint(tmp_path, text, deep="RATE = 101\n")


def test_a_circular_import_is_fingerprinted(tmp_path: Path) -> None:
    deep = "RATE = 100\ndef later():\n    import flows.rates\n"
    assert fingerprint(tmp_path, deep=deep) != fingerprint(tmp_path)


def test_the_code_of_a_table_holds_the_functions_that_its_query_calls(tmp_path: Path) -> None:
    def code(factor: int) -> str:
        (tmp_path / "waterclock.toml").write_text(SETTINGS, encoding="utf-8")
        (tmp_path / "flows").mkdir(exist_ok=True)
        (tmp_path / "flows" / "a.py").write_text(
            f"{HEAD}@wc.function('twice')\ndef twice(n: int) -> int:\n    return {factor} * n\n"
            "wc.function('four_times', parameters='n BIGINT', returns='BIGINT', return_='twice(twice(n))')\n"
            "wc.transform('marts.a', every='day', as_='SELECT four_times(1) AS four')\n",
            encoding="utf-8",
        )
        return load_project(tmp_path, capabilities=CAPABILITIES).flow.tables["marts.a"].fingerprint

    assert code(2) == code(2) != code(3)


ORDERED = """
RATES = {"eur": 1}
RATES["usd"] = 2
RATES = {**RATES, "eur": 3}

@wc.transform("marts.a", every="day")
def a(rows=wc.table("raw.a")):
    return rows.where(rows.n > RATES["eur"])
"""


def test_the_order_of_statements_that_bind_one_name_counts(tmp_path: Path) -> None:
    first, second, third = ORDERED.strip().split("\n")[:3]
    orders = [(first, second, third), (first, third, second), (third, first, second), (third, second, first)]
    texts = [ORDERED.replace(f"{first}\n{second}\n{third}", "\n".join(lines)) for lines in orders]
    assert len({fingerprint(tmp_path, f"RATES = {{}}\n{text}") for text in texts}) == len(texts)


def test_the_order_of_other_statements_does_not_count(tmp_path: Path) -> None:
    text = changed("LIMIT = 5\nOTHER = 6\n", "LIMIT = 5\nMORE = LIMIT + 1\n").replace("rate()", "rate() + MORE")
    moved = text.replace("LIMIT = 5\nMORE = LIMIT + 1\n", "").replace("@wc", "LIMIT = 5\nMORE = LIMIT + 1\n\n@wc")
    assert fingerprint(tmp_path, text) == fingerprint(tmp_path, moved)
