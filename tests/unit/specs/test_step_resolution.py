from __future__ import annotations

import pytest

from tests.specifying import scenario, shop, wrong
from waterclock.dpl.project import Project

LADDERS = """
TRANSFORM marts.checked PARTITIONED
  EXPECT amount > 0 AS first_warns ELSE WARN AT MOST 1 PERCENT ELSE HOLD,
  amount > 1 AS only_limited ELSE WARN AT MOST 3,
  amount > 2 AS quarantines ELSE QUARANTINE,
  amount > 3 AS quarantines_some ELSE QUARANTINE AT MOST 3,
  amount > 4 AS drops ELSE DROP,
  amount > 5,
  amount > 6 AS `six: or more` ELSE WARN
AS SELECT * FROM raw.orders;
TRANSFORM marts.loose PARTITIONED (id BIGINT ELSE WARN KEY ELSE QUARANTINE, n INT NOT NULL ELSE WARN, m INT ELSE HOLD)
AS SELECT id, n, m FROM raw.orders;
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return shop(tmp_path_factory.mktemp("checked"), LADDERS)


@pytest.mark.parametrize(
    ("rule", "may_fail", "may_warn"),
    [
        ("first_warns", True, True),
        ("only_limited", True, True),
        ("quarantines", False, True),
        ("quarantines_some", True, True),
        ("drops", False, False),
        ("amount > 5", True, False),
        ("six: or more", False, True),
    ],
)
def test_all_steps_of_a_rule_decide_whether_it_can_fail_or_warn(
    checked: Project, rule: str, may_fail: bool, may_warn: bool
) -> None:
    for expectation, is_possible in ((f"fails with {rule}", may_fail), (f"warns of {rule}", may_warn)):
        steps = "Given the table raw.orders is empty\nWhen marts.checked runs\nThen marts.checked " + expectation
        assert [error.code for error in wrong(checked, scenario(steps))] == ([] if is_possible else ["E363"])


@pytest.mark.parametrize(
    ("what", "may_fail", "may_warn"),
    [
        ("KEY", True, True),
        ("id", True, True),
        ("id BIGINT", False, True),
        ("n", True, True),
        ("n INT", False, False),
        ("m INT", True, False),
        ("m", False, False),
    ],
)
def test_keys_types_and_missing_values_may_warn_too(
    checked: Project, what: str, may_fail: bool, may_warn: bool
) -> None:
    for expectation, is_possible in ((f"fails with {what}", may_fail), (f"warns of {what}", may_warn)):
        steps = "Given the table raw.orders is empty\nWhen marts.loose runs\nThen marts.loose " + expectation
        assert [error.code for error in wrong(checked, scenario(steps))] == ([] if is_possible else ["E363"])
