"""Two runners assign tokens to the same persons at once and are killed in turn: each person keeps one token."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.killing import wait_for_leases
from tests.faults.test_kill import said_by, started
from tests.faults.waiting import PATIENCE, wait_for
from tests.keys import DECLARED, VARIABLES
from tests.tiny import TOML, Tiny, day, described
from waterclock.storage.lake import vault_folder
from waterclock.storage.token_vault import find_tokens

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TABLES = ("raw.visits", "raw.orders")
FLOW = DECLARED + "".join(
    f"COLLECT {table} PARTITIONED (id BIGINT, who STRING SUBJECT customer TOKENS, at TIMESTAMP) "
    f"FROM shop.{table[4:]} EVERY DAY BY DATA TIME at;\n"
    for table in TABLES
)
PERSONS = ("ada", "eva", "joe", "kim", "lea", "max")
ROWS = {
    table: [
        (number, PERSONS[(number + shift) % len(PERSONS)], f"2020-01-{1 + number // 6:02d} {10 + number % 6}:00:00")
        for number in range(12)
    ]
    for shift, table in enumerate(TABLES)
}
WRITTEN, COMMITTED = "tokens.written", "tokens.committed"


def known(tiny: Tiny) -> dict[str, str]:
    """Return the tokens that the vault has committed."""
    return find_tokens(vault_folder(str(tiny.root / tiny.storage), "customer"), PERSONS)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # the first one leaves uncommitted values; the second one dies after it committed its own
        (WRITTEN, COMMITTED),
        # the second one has written tokens when those of the first one are committed: it must not commit its own
        pytest.param(COMMITTED, COMMITTED, marks=pytest.mark.soak),
        pytest.param(COMMITTED, WRITTEN, marks=pytest.mark.soak),
        pytest.param(WRITTEN, WRITTEN, marks=pytest.mark.soak),
    ],
)
def test_persons_keep_one_token_when_two_runners_are_killed_in_turn(
    first: str, second: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one has read the vault and written its tokens before the first one starts."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    tiny = Tiny(tmp_path, spark, toml=TOML)
    tiny.declare(FLOW)
    for table, rows in ROWS.items():
        tiny.source(table.partition(".")[2], "id INT, who TEXT, at TEXT", rows)
    seen: dict[str, str] = {}
    dies, waits = TABLES
    module = "tests.faults.waiting"
    where = [str(tmp_path), "runner"]
    now = day(3).isoformat()
    with started(spark, *where, waits, now, WRITTEN, second, module=module) as other:
        wait_for(tmp_path / f"{waits}.waits")
        with started(spark, *where, dies, now, "-", first, module=module) as process:
            assert process.wait(PATIENCE) == -signal.SIGKILL, said_by(process)
        seen |= known(tiny)
        assert bool(seen) == (first == COMMITTED)
        (tmp_path / f"{waits}.goes").touch()
        assert other.wait(PATIENCE) == -signal.SIGKILL, said_by(other)
    found = known(tiny)
    assert seen.items() <= found.items(), "a token was decided twice"
    assert bool(found) == (COMMITTED in {first, second})
    assert tiny.open_claims() == len(TABLES)
    wait_for_leases(tiny)
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    tokens = known(tiny)
    assert found.items() <= tokens.items()
    assert tokens.keys() == set(PERSONS)
    assert len(set(tokens.values())) == len(PERSONS)
    for table, rows in ROWS.items():
        wanted = sorted((number, tokens[who]) for number, who, _ in rows)
        assert sorted(tiny.rows(f"SELECT id, who FROM {table}")) == wanted, table
    assert tiny.open_claims() == 0
