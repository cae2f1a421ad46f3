"""The error for a rule that Spark cannot evaluate, built from Spark's message."""

from __future__ import annotations

import dataclasses
from typing import Any

from pyspark.errors import AnalysisException, PySparkException

from tests.ledgers import SOMEWHERE, table
from waterclock.engine.batch.rule_errors import rule_error
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Rule
from waterclock.flow.enums import Action, Scope
from waterclock.storage.slices.input_filter import READ_BY


@dataclasses.dataclass
class Context:
    said: str

    def fragment(self) -> str:
        return self.said

    def contextType(self) -> str:  # noqa: N802 - PySpark's name
        return "QueryContextType.SQL"


class Raised(AnalysisException):
    def __init__(self, message: str, fragment: str = "") -> None:
        PySparkException.__init__(self, message)
        self.said = message
        self.fragments = [Context(fragment)] if fragment else []

    def __str__(self) -> str:
        return self.said

    def getQueryContext(self) -> Any:  # noqa: N802 - PySpark's name
        return self.fragments


def card(expression: str, raised: Raised) -> WaterclockError | None:
    rule = Rule(expression, "sound", Scope.ROW, Action.WARN, SOMEWHERE)
    return rule_error(dataclasses.replace(table("lab.samples"), rules=(rule,)), raised)


def test_a_rule_that_calls_an_unknown_function_is_reported_with_a_suggestion() -> None:
    said = "[UNRESOLVED_ROUTINE] Cannot resolve routine `last_god` on search path [`system`.`builtin`]. SQLSTATE: 42883"
    found = card("count(*) > last_god(count(*))", Raised(said, "last_god(count(*))"))
    assert found is not None
    assert (found.code, found.where) == ("E757", str(SOMEWHERE))
    assert found.what == "rule sound of lab.samples calls last_god, which is not a function"
    assert found.fix == "did you mean last_good?"
    far = card("foo(id) > 2", Raised(said.replace("last_god", "foo"), "foo(id)"))
    assert far is not None
    assert far.fix == "use a function of Spark SQL"


def test_a_rule_that_is_not_a_condition_is_reported_with_its_own_expression() -> None:
    said = (
        '[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] Cannot resolve "CASE WHEN id THEN 0 ELSE 1 END" due to data type '
        'mismatch: The first parameter requires the "BOOLEAN" type, however "id" has the type "BIGINT". SQLSTATE: 42K09'
    )
    found = card("id", Raised(said))
    assert found is not None
    assert (found.code, found.where) == ("E757", str(SOMEWHERE))
    assert found.what == "rule sound of lab.samples is not a condition: id is BIGINT"
    assert "CASE WHEN" not in found.render()
    # after other rules that filter rows or apply to inputs, its mark is another bit
    second = card("id", Raised(said.replace("ELSE 1 END", "ELSE 4 END")))
    assert second is not None
    assert second.render() == found.render()
    assert card("value", Raised(said)) is None  # some other expression of the table: its query's


def test_a_rule_error_does_not_suggest_to_disable_ansi_mode() -> None:
    said = (
        "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead. "
        'If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error. SQLSTATE: 22012'
    )
    found = card("10 / id > 1", Raised(said, "10 / id"))
    assert found is not None
    assert "ansi" not in found.render()
    assert "try_divide" in (found.fix or "")


def test_no_column_of_ours_is_a_hint() -> None:
    said = f"[UNRESOLVED_COLUMN] A column with name `idd` cannot be resolved. Did you mean one of: [`id`, `{READ_BY}`]."
    found = card("idd > 1", Raised(said, "idd"))
    assert found is not None
    assert READ_BY not in found.render()
    assert "[`id`]" in found.render()
