"""The vault of random tokens: each value has one token, also with concurrent writers."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.storage import token_vault
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.token_vault import add_tokens, find_tokens, read_tokens, remove_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PROJECT = "tiny"
LATER = datetime.now(UTC) + timedelta(days=1)


def add(spark: SparkSession, folder: str, values: list[str]) -> None:
    add_tokens(spark, folder, spark.createDataFrame([(value,) for value in values], "value STRING"), PROJECT)


def rows(spark: SparkSession, folder: str) -> list[tuple[str, str]]:
    return sorted((row.value, row.token) for row in read_tokens(spark, folder).collect())


def test_each_value_has_one_token_whoever_adds_it(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sessions add overlapping values at once, and files are joined meanwhile."""
    monkeypatch.setattr(token_vault, "_MOST_SMALL_FILES", 3)
    folder, draw = str(tmp_path / "vault"), random.Random(7)
    shares = [[f"v{draw.randrange(30)}" for _ in range(8)] for _ in range(9)]
    seen: list[dict[str, str]] = []

    def work(share: list[str]) -> None:
        session = spark.newSession()
        add(session, folder, share)
        seen.append(find_tokens(folder, share))

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(work, share) for share in shares]:
            done.result()
    found = rows(spark, folder)
    assert [value for value, _ in found] == sorted({value for share in shares for value in share})
    assert len({token for _, token in found}) == len(found)
    stored = dict(found)
    assert len(seen) == len(shares)
    for share, known in zip(seen, shares, strict=False):
        assert share.items() <= stored.items(), known  # a token that a process has used is never replaced
    with open_table(folder) as table:
        assert len(table.files) < len(shares)
    add(spark.newSession(), folder, [token for _, token in found])  # a token is not a new value
    assert rows(spark, folder) == found


def test_a_commit_that_another_one_preceded_is_computed_again(tmp_path: Path, spark: SparkSession) -> None:
    folder = str(tmp_path / "vault")
    add(spark, folder, ["a"])
    begun: list[str] = []

    def disturb(name: str) -> None:
        if name == "tokens.written" and not begun:
            begun.append(name)
            add(spark.newSession(), folder, ["b", "c"])

    with inject_faults(disturb):
        add(spark, folder, ["a", "b", "d"])
    assert begun
    assert [value for value, _ in rows(spark, folder)] == ["a", "b", "c", "d"]


def test_removed_values_are_in_no_file(tmp_path: Path, spark: SparkSession) -> None:
    folder = str(tmp_path / "vault")
    assert remove_values(folder, ["ada.lovelace"], PROJECT, LATER) == 0
    add(spark, folder, ["ada.lovelace", "eva.crane"])
    add(spark, folder, ["joe.new"])
    before = dict(rows(spark, folder))
    assert set(before) == {"ada.lovelace", "eva.crane", "joe.new"}
    assert find_tokens(folder, ["ada.lovelace", "nobody"]) == {"ada.lovelace": before["ada.lovelace"]}
    assert remove_values(folder, ["ada.lovelace", "nobody"], PROJECT, LATER) == 1
    assert remove_values(folder, ["ada.lovelace"], PROJECT, LATER) == 0
    assert dict(rows(spark, folder)) == {value: before[value] for value in ("eva.crane", "joe.new")}
    content = b"".join(path.read_bytes() for path in Path(folder).rglob("*") if path.is_file())
    assert b"joe.new" in content  # as the files show values in plain text
    assert b"ada.lovelace" not in content
    assert before["ada.lovelace"].encode() not in content
    with pytest.raises(WaterclockError, match="E601"):
        add_tokens(spark, folder, spark.createDataFrame([("x",)], "value STRING"), "other")
