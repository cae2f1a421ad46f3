from __future__ import annotations

import pytest

from waterclock.spark_sql import literal_path


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("/srv/a b/it's 100%", "/srv/a b/it's 100%"),
        ("/srv/[x]/{y,z}/*?", r"/srv/\[x\]/\{y,z\}/\*\?"),
        ("/srv/back\\slash", r"/srv/back\\slash"),
    ],
)
def test_what_spark_takes_for_a_pattern_is_escaped(path: str, written: str) -> None:
    assert literal_path(path) == written
