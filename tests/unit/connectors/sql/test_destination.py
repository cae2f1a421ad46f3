"""The choice of a destination's index for a delivery."""

from __future__ import annotations

import pytest

from waterclock.connectors.sql.destination import DestinationIndex

KEYS = DestinationIndex(("id", "day"), is_unique=True)
LABEL = DestinationIndex(("timelabel",), is_unique=False)


@pytest.mark.parametrize(
    ("wanted", "members", "is_unique", "is_served"),
    [
        (KEYS, ["day", "ID"], True, True),
        (KEYS, ["id", "day"], False, False),  # a MERGE needs a unique index
        (KEYS, ["id", "day", "hour"], True, False),
        (LABEL, ["TimeLabel", "id"], False, True),
        (LABEL, ["id", "timelabel"], True, False),
    ],
)
def test_an_index_serves_if_it_finds_the_same_rows(
    wanted: DestinationIndex, members: list[str], *, is_unique: bool, is_served: bool
) -> None:
    assert wanted.is_served_by(members, is_unique=is_unique) is is_served
