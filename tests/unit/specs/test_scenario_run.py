from __future__ import annotations

from pathlib import Path

import pytest

from tests.specifying import shop
from waterclock.engine.batch.expectations import RuleVerdict, batch_hold_error, refused_batch_error
from waterclock.errors import WaterclockError
from waterclock.specs.scenario_run import is_failure_of, is_warning_of


@pytest.mark.parametrize(
    ("findings", "names", "others"),
    [
        (["is_paid: 1 of 9 rows violate (amount > 0)"], ["is_paid", "IS_PAID"], ["amount", "paid", "KEY", "rows"]),
        (["a: 1 of 9 rows violate (b > 0)", "b is null in 1 of 9 rows"], ["a", "b"], ["c"]),
        (["amount: 1 of 9 rows have no value in amount"], ["amount"], ["value"]),
        (["KEY (id, at) is not unique: ('a', 1) occur more than once"], ["KEY"], ["id", "at"]),
        (["KEY (id): 2 of 9 rows have no key, or one that occurs more than once"], ["KEY"], ["id"]),
        (["many: the batch is not (count(*) > 0 AND few), where count(*) is 0"], ["many"], ["few"]),
    ],
)
def test_a_batch_fails_with_the_rules_that_are_broken_and_not_with_names_in_their_conditions(
    tmp_path: Path, findings: list[str], names: list[str], others: list[str]
) -> None:
    table = shop(tmp_path).flow.tables["raw.orders"]
    held = RuleVerdict(holds=tuple(findings))
    errors = [
        refused_batch_error(table, "raw.orders@20200101000000", RuleVerdict(refusals=tuple(findings))),
        batch_hold_error(table, "raw.orders@20200101000000", held),
    ]

    for error in errors:
        assert [name for name in [*names, *others] if is_failure_of(error, name)] == names
        assert is_failure_of(error, error.code)


def test_another_error_fails_with_the_names_in_its_text() -> None:
    error = WaterclockError("E620", "two different rows of one key in raw.prices: item = 1", why="neither is the last")

    assert [what for what in ("KEY", "item", "E620", "E740", "ite") if is_failure_of(error, what)] == [
        "KEY",
        "item",
        "E620",
    ]


@pytest.mark.parametrize(
    ("warning", "what"),
    [
        ("usual: 1 of 9 rows violate (revenue < 1000)", "Usual"),
        ("six: or more: 1 of 9 rows violate (amount > 6)", "six: or more"),
        ("amount > 6: 1 of 9 rows violate (amount > 6)", "amount > 6"),
        ("id BIGINT: 1 of 9 rows have no valid BIGINT in id, quarantined", "id BIGINT"),
        ("id is null in 1 of 9 rows", "id"),
        ("KEY (id) is not unique: 1 occur more than once", "KEY"),
        ("KEY (id): 2 of 9 rows have no key, or one that occurs more than once, quarantined", "KEY"),
    ],
)
def test_a_warning_is_of_the_rule_at_its_beginning(warning: str, what: str) -> None:
    assert is_warning_of(warning, what)
    assert not any(is_warning_of(warning, other) for other in ("amount", "rows", "or more", "BIGINT"))
