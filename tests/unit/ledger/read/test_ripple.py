from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from waterclock.ledger.read.ripple import circles_of

NAMES = "abcdef"


def reaches(reads: dict[str, set[str]], start: str, goal: str) -> bool:
    """Whether one or more reads lead from one table to another."""
    seen: set[str] = set()
    left = [start]
    while left:
        for other in reads.get(left.pop(), set()):
            if other == goal:
                return True
            if other not in seen:
                seen.add(other)
                left.append(other)
    return False


@given(st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES), max_size=3), max_size=6))
def test_circles_are_the_tables_that_reach_each_other(reads: dict[str, set[str]]) -> None:
    expected = {
        name: tuple(sorted(other for other in reads if reaches(reads, name, other) and reaches(reads, other, name)))
        for name in reads
        if reaches(reads, name, name)
    }
    assert circles_of(reads) == expected


def test_a_long_chain_has_no_circle() -> None:
    assert circles_of({f"t{n}": {f"t{n - 1}"} for n in range(1, 5000)} | {"t0": set()}) == {}
