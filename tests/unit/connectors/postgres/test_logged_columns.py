"""Names of columns in a log, matched with the columns of the table: small tables and random histories of one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors.postgres.logged_columns import columns_for_record, columns_of_range

WANTED = ("id", "a", "b")
STEPS = st.lists(
    st.tuples(st.sampled_from(["rename", "swap", "add", "drop", "change", "look"]), st.integers(0, 9)), max_size=14
)


def noted(*names: str, before: dict[str, object] | None = None, position: int = 0) -> dict[str, object]:
    now = {number: (name, "text", "") for number, name in enumerate(names, 1)}
    return {"columns": columns_for_record(now, len(names), before, position)}


@pytest.mark.parametrize(
    ("logged", "is_told"),
    [
        ("id a b", True),
        ("id c b", False),
        ("id b a", False),
        ("id a", False),
        ("id a b more", True),
        ("id a b other", False),
        ("id a b more left", True),
        ("id a b more other", True),
        ("id a b more a", False),
    ],
)
def test_a_list_of_names_is_explained_or_not(logged: str, is_told: bool) -> None:
    """`more` and `left` were added since; `left` is not collected."""
    now = {number: (name, False) for number, name in enumerate(("id", "a", "b", "more", "left"), 1)}
    known = columns_of_range(now, 5, noted("id", "a", "b"), 10, {"id", "a", "b", "more"})
    assert known.has_own_names([(name, None) for name in logged.split()], is_whole=True) is is_told


def test_a_dropped_column_is_accepted_until_the_position_of_the_next_check() -> None:
    now = {1: ("id", False), 3: ("b", False)}
    before = noted("id", "a", "b")
    old, new = ([(name, None) for name in names.split()] for names in ("id a b", "id b"))
    since = columns_of_range(now, 3, before, 10, {"id", "b"})
    assert since.has_own_names(old, is_whole=True)
    assert since.has_own_names(new, is_whole=True)
    after = {"columns": columns_for_record({1: ("id", "text", ""), 3: ("b", "text", "")}, 3, before, 20)}
    assert columns_of_range(now, 3, after, 15, {"id", "b"}).has_own_names(old, is_whole=True)
    assert not columns_of_range(now, 3, after, 20, {"id", "b"}).has_own_names(old, is_whole=True)
    assert columns_of_range(now, 3, after, 20, {"id", "b"}).has_own_names(new, is_whole=True)


def test_a_new_name_behind_a_column_that_was_never_seen_is_refused() -> None:
    now = {1: ("id", False), 3: ("more", False)}
    known = columns_of_range(now, 3, noted("id"), 10, {"id", "more"})
    assert not known.has_own_names([("id", None), ("more", None)], is_whole=True)
    assert known.has_own_names([("id", None), ("gone", None), ("more", None)], is_whole=True)
    assert known.has_own_names([("id", 1), ("more", 3)], is_whole=False)
    assert not known.has_own_names([("id", 1), ("more", 2)], is_whole=False)


def test_numbers_decide_where_the_log_has_them() -> None:
    now = {1: ("id", False), 2: ("a", False), 3: ("b", False)}
    known = columns_of_range(now, 3, noted("id", "a", "b"), 10, set(WANTED))
    assert known.has_own_names([("id", 1), ("b", 3), ("id", None)], is_whole=False)
    assert not known.has_own_names([("id", 1), ("b", 2)], is_whole=False)
    assert not known.has_own_names([("id", 1), ("c", 3)], is_whole=False)
    assert not known.has_own_names([("b", None), ("a", None)], is_whole=False)


@given(STEPS)
def test_accepted_log_changes_have_their_columns_own_names(steps: list[tuple[str, int]]) -> None:
    """The model has the name of each column by its number; each change records the names of its time."""
    there = dict(enumerate(WANTED, 1))
    last = fresh = len(WANTED)
    before = {"columns": columns_for_record({number: (name, "", "") for number, name in there.items()}, last, None, 0)}
    changes: list[tuple[int, dict[int, str]]] = []
    own = dict(there)  # names at the checks, which restore the columns before each
    for position, (kind, pick) in enumerate([*steps, ("look", 0)], 1):
        numbers = sorted(there)
        number = numbers[pick % len(numbers)]
        if kind == "rename":
            fresh += 1
            there[number] = f"n{fresh}"
        elif kind == "swap":
            number, other = numbers[pick % len(WANTED)], numbers[(pick // 2) % len(WANTED)]
            there[number], there[other] = there[other], there[number]
        elif kind == "add":
            last, fresh = last + 1, fresh + 1
            there[last] = own[last] = f"n{fresh}"
        elif kind == "drop" and number > len(WANTED):
            del there[number]
        elif kind == "change":
            changes.append((position, dict(there)))
        elif kind == "look":
            there = {number: own[number] for number in there}
            now = {number: (name, False) for number, name in there.items()}
            wanted = set(there.values())
            known = columns_of_range(now, last, before, changes[0][0] if changes else position, wanted)
            for _, then in changes:
                is_own = all(
                    there.get(number) == name or (number not in there and name not in wanted)
                    for number, name in then.items()
                ) and all(number in then for number in there if number <= max(then))
                for logged, is_whole in (
                    ([(name, None) for _, name in sorted(then.items())], True),
                    (sorted(((name, number) for number, name in then.items()), key=lambda each: each[1]), False),
                ):
                    assert not known.has_own_names(logged, is_whole=is_whole) or is_own, (there, then, before)
            noted_now = {number: (name, "", "") for number, name in there.items()}
            before, changes = {"columns": columns_for_record(noted_now, last, before, position)}, []
