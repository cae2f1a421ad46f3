from __future__ import annotations

from waterclock.dpl.query.builtins import called_functions
from waterclock.flow.declarations import Function, Place


def function(name: str, body: str) -> Function:
    return Function(name, (("a", "INT"),), "INT", body, None, Place("a.dpl", 1, 1))


def test_a_function_is_ordered_after_the_functions_it_calls() -> None:
    """Spark resolves the body of a function when it is created."""
    bodies = {"top": "low(a) + middle(a)", "other": "a", "middle": "Low (a)", "low": "a + 1"}
    functions = {name: function(name, body) for name, body in bodies.items()}
    assert [each.name for each in called_functions(functions, ["x > 1", "TOP(x)", "low(x)"])] == [
        "low",
        "middle",
        "top",
    ]


def test_a_function_is_found_by_its_name_in_backticks() -> None:
    assert [each.name for each in called_functions({"low": function("low", "a + 1")}, ["`low` (x)"])] == ["low"]


def test_neither_texts_nor_columns_call_a_function_and_comments_do_not_hide_a_call() -> None:
    functions = {"low": function("low", "a + 1")}
    texts = ["x = 'low(1)' OR r\"low (2)\" = y", "t.low(1) + low", "allow(1)"]
    assert called_functions(functions, texts) == []
    assert [each.name for each in called_functions(functions, ["low /* of all */ (x)"])] == ["low"]
