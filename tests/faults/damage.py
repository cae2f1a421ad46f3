"""A small project with every mode, damages to each kind of file in its storage, and the fixes its errors name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.tiny import Tiny, day, described, evening
from waterclock.cli.app import main
from waterclock.engine.query.query import query
from waterclock.engine.query.ticks import RequestedTick
from waterclock.errors import WaterclockError

DAYS = 4
NOW = day(DAYS + 1)
FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, item BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at;
COLLECT web.clicks (id BIGINT, item BIGINT) FROM land.acme.clicks EVERY DAY BY ARRIVAL TIME APPEND;
COLLECT shop.lands (land STRING KEY, tax BIGINT) FROM shop.lands EVERY DAY;
COLLECT shop.items (id BIGINT KEY, price BIGINT, gone BIGINT, at TIMESTAMP) FROM shop.changes
  EVERY DAY BY DATA TIME at MERGE ORDER BY at DELETE WHEN gone = 1;
COLLECT shop.prices (id BIGINT KEY, price BIGINT, gone BIGINT, at TIMESTAMP) FROM shop.changes
  EVERY DAY BY DATA TIME at TEMPORAL AT at DELETE WHEN gone = 1;
TRANSFORM marts.sold PARTITIONED
  AS SELECT o.id, o.item, i.price FROM shop.orders o LEFT JOIN shop.items i ON i.id = o.item;
TRANSFORM marts.spent (item BIGINT KEY, *) MERGE ORDER BY orders
  AS SELECT item, count(*) AS orders, sum(price) AS spent FROM marts.sold GROUP BY item;
TRANSFORM marts.lands AS SELECT land, tax, (SELECT count(*) FROM web.clicks) AS clicks FROM shop.lands;
"""
TABLES = ("shop.orders", "web.clicks", "shop.lands", "shop.items", "shop.prices", "marts.sold", "marts.spent",
          "marts.lands")  # fmt: skip
MOST_MENDS = 4
Rows = list[tuple[Any, ...]]


def prepare(tiny: Tiny) -> None:
    """Fill the sources, declare the flow, and run all but the last day."""
    days = range(1, DAYS + 1)
    tiny.source(
        "orders", "id INT, item INT, at TEXT",
        [(10 * d + n, n, f"2020-01-{d:02d} {10 + n}:00:00") for d in days for n in (1, 2)],
    )  # fmt: skip
    tiny.source("lands", "land TEXT, tax INT", [("de", 19), ("fr", 20)])
    tiny.source(
        "changes", "id INT, price INT, gone INT, at TEXT",
        [(n, 100 * d + n, int(d == 3 and n == 2), f"2020-01-{d:02d} {8 + n:02d}:00:00") for d in days for n in (1, 2)],
    )  # fmt: skip
    for d in days:
        tiny.land("clicks", evening(d), f"id,item\n{d}1,1\n{d}2,2\n")
    tiny.declare(FLOW)
    for d in range(1, DAYS):
        if d > 1:
            tiny.shop(f"UPDATE lands SET tax = tax + {d}")
        outcome = tiny.run(day(d + 1))
        assert not outcome.failed, described(outcome)


def remove(path: Path) -> None:
    """Delete a file."""
    path.unlink()


def truncate(path: Path) -> None:
    """Cut a file in half, as a full disk does."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """Flip bits throughout a file."""
    content = bytearray(path.read_bytes())
    for at in range(0, len(content), max(1, len(content) // 64)):
        content[at] ^= 0xFF
    path.write_bytes(bytes(content))


def empty(path: Path) -> None:
    """Truncate a file to zero bytes, as after a power failure."""
    path.write_bytes(b"")


DAMAGES: Mapping[str, Callable[[Path], None]] = {
    "remove": remove,
    "truncate": truncate,
    "flip": flip,
    "empty": empty,
}
KINDS = ("manifest", "claim record", "slice", "newest manifest", "newest slice", "last commit", "older commit", "state",
         "checkpoint", "name of the checkpoint")  # fmt: skip
CASES = [f"{table} {kind}" for table in TABLES for kind in KINDS] + ["archive", "ledger"]


def lake_of(tiny: Tiny) -> Path:
    """Return the storage folder of a project."""
    return tiny.root / tiny.storage


def folder_of(tiny: Tiny, table: str) -> Path:
    """Return the folder of a table."""
    return lake_of(tiny) / "tables" / table.replace(".", "/")


def leaves_of(tiny: Tiny, table: str) -> list[Path]:
    """Return the slice folders of a table, oldest label first."""
    return sorted((folder_of(tiny, table) / "_stage").glob("y=*/m=*/d=*/h=*/n=*/c=*"))


def file_of(tiny: Tiny, case: str) -> Path | None:
    """Return the file for a case, or None if the table has no such file.

    Claim records are read only if the ledger is lost, so the ledger is removed for them. A checkpoint is written first.
    """
    if case == "ledger" or case.endswith("claim record"):
        for path in lake_of(tiny).glob("ledger.db-*" if case == "ledger" else "ledger.db*"):
            path.unlink()
    if case == "ledger":
        return lake_of(tiny) / "ledger.db"
    if case == "archive":
        return min((lake_of(tiny) / "archive").rglob("*.csv.gz"))
    table, _, kind = case.partition(" ")
    leaf = leaves_of(tiny, table)[-1 if kind.startswith("newest") else 1]
    log = folder_of(tiny, table) / "_delta_log"
    if kind.endswith("checkpoint"):
        DeltaTable(str(log.parent)).create_checkpoint()
        (log / f"{0:020d}.json").unlink()  # as Delta's cleanup does
        return log / "_last_checkpoint" if kind.startswith("name") else min(log.glob("*.checkpoint.parquet"))
    commits = sorted(log.glob("*.json"))
    states = sorted((folder_of(tiny, table) / "state").glob("**/*.parquet"))
    found: Mapping[str, Path | None] = {
        "manifest": leaf / "_manifest.json",
        "claim record": leaf / "_claim.json",
        "slice": min(leaf.glob("*.parquet")),
        "last commit": commits[-1],
        "older commit": commits[1],
        "state": states[-1] if states else None,
    }
    return found[kind.removeprefix("newest ")]


@dataclass
class Heard:
    """Rows by table, and the errors raised while reading them."""

    rows: dict[str, Rows] = field(default_factory=dict)
    errors: list[WaterclockError] = field(default_factory=list)


def ask(tiny: Tiny, *, tick: str | None = None) -> Heard:
    """Read all rows of every table, and collect errors, which must be ours and name a fix."""
    heard = Heard()
    as_of = None if tick is None else RequestedTick(tick)
    try:
        with tiny.opened() as work:
            for table in TABLES:
                try:
                    found = query(work, f"SELECT * FROM {table}", limit=1000, as_of=as_of)
                    heard.rows[table] = sorted(found.rows, key=repr)
                except WaterclockError as error:
                    heard.errors.append(error)
    except WaterclockError as error:  # the ledger cannot be opened
        heard.errors.append(error)
    for each in heard.errors:
        assert_mendable(each)
    return heard


def run(tiny: Tiny) -> list[WaterclockError]:
    """Run due batches, and return their errors."""
    try:
        outcome = tiny.run(NOW)
    except WaterclockError as error:
        return [error]
    return [report.error for report in outcome.failed if report.error is not None]


def assert_mendable(error: WaterclockError) -> None:
    """Assert that an error names a command that fixes it."""
    assert error.code not in {"E790", "E999", "E730"}, error.render()
    assert list(commands_of(error)), error.render()


def commands_of(error: WaterclockError) -> Iterator[str]:
    """Yield the first command that an error names."""
    yield from re.findall(r"`waterclock ([^`]*)`", error.fix or "")[:1]


def mend(tiny: Tiny, command: str) -> None:
    """Run the command that an error names."""
    words = shlex.split(command)
    more = [] if words[0] == "ledger" else ["--yes"]
    timed = ["--now", NOW.isoformat()] if words[0] in {"recompute", "recollect", "skip"} else []
    assert main([*words, "--project", str(tiny.root), *more, *timed]) == 0, command


def mended(tiny: Tiny, errors: list[WaterclockError]) -> None:
    """Run the commands that the errors name, then due batches, until there are no errors."""
    for _ in range(MOST_MENDS):
        if not errors:
            return
        for command in dict.fromkeys(command for error in errors for command in commands_of(error)):
            mend(tiny, command)
        errors = [*run(tiny), *ask(tiny).errors]
    assert not errors, "\n\n".join(error.render() for error in errors)
