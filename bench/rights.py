"""Measures the cost of grants for a query: as the owner, with grants, and with mask and condition written by hand.

    python bench/rights.py [--sizes 1000,2000000] [--rounds 15]

The person sees four of eight columns, one of them masked, and the rows of one country. By hand, the owner queries a
subquery with the same mask and condition. The difference is the cost of our two checks, of the text and of Spark's
plan. Target: 10 ms.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from big_slice import make_source
from measure import Cost, cost_of, grid, interleaved, middle, ratio
from product import Project, warm_spark
from quality import HEADER, collect

from waterclock.engine.query.query import query
from waterclock.permissions.users_and_roles import Person, SignIn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLES = """
[roles]
analyst = ["look", "query"]
[users.anna]
roles = ["analyst"]
attributes.country = "de"
"""
FLOW = """
CREATE CONNECTION landing TYPE files;
COLLECT raw.events PARTITIONED FROM landing.web.events EVERY DAY BY ARRIVAL TIME;
GRANT SELECT (id, customer, country, page AS (mask_text(page))) ON raw.events TO (analyst)
  WHERE country = USER('country');
"""
BY_HAND = "(SELECT id, customer, country, mask_text(page) AS page FROM raw.events WHERE country = 'de')"
QUERIES = {
    "one row": "SELECT id, page FROM {it} e WHERE id = 10",
    "a count by group": "SELECT customer % 10 AS c, count(*) AS n, max(page) AS p FROM {it} e GROUP BY 1",
    "a join": "SELECT a.id, b.page FROM {it} a JOIN {it} b ON a.id = b.customer ORDER BY a.id LIMIT 5",
}


def ask(project: Project, person: Person | None, sql: str, _: int) -> Cost:
    return cost_of(lambda: query(project.work, sql, limit=10, person=person))


def costs(spark: SparkSession, folder: Path, rows: int, rounds: int) -> list[list[str]]:
    folder.mkdir()
    source = make_source(spark, folder, rows)
    root = folder / "ours"
    (root / "flows").mkdir(parents=True)
    (root / "waterclock.toml").write_text(HEADER + ROLES, encoding="utf-8")
    (root / "flows" / "rights.dpl").write_text(FLOW, encoding="utf-8")
    project = Project(spark, root, 1)
    collect(project, root, source, 1)
    anna = project.work.project.access.person("anna", SignIn.TOKEN)
    found = []
    for name, text in QUERIES.items():
        sides: dict[str, Callable[[int], Cost]] = {
            "owner": partial(ask, project, None, text.format(it="raw.events")),
            "by hand": partial(ask, project, None, text.format(it=BY_HAND)),
            "granted": partial(ask, project, anna, text.format(it="raw.events")),
        }
        owner, hand, granted = (middle(each) for each in interleaved(sides, rounds, warm=3).values())
        found.append([
            name, f"{rows:,}", *(f"{1000 * each.wall:.0f}" for each in (owner, hand, granted)),
            f"{1000 * (granted.wall - hand.wall):.0f}", ratio(granted.wall, hand.wall), ratio(granted.cpu, hand.cpu),
        ])  # fmt: skip
    project.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,2000000", help="rows of the table")
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        rows = [
            row for size in asked.sizes.split(",") for row in costs(spark, Path(name) / size, int(size), asked.rounds)
        ]
    head = ["", "rows", "owner ms", "by hand ms", "granted ms", "granted − by hand", "wall", "CPU"]
    print(f"Medians of {asked.rounds} rounds.\n")
    print(grid(head, rows))


if __name__ == "__main__":
    main()
