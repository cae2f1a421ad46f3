"""Measures the list of a form with many rows, for people who see all of it and for people who see a part.

    python bench/forms.py [--rows 1000000] [--databases sqlite,postgres] [--rounds 3] [--keep FOLDER]

Each line is a page of 100 rows and the numbers of rows above it, as the pages of a form show them. `first` is the first
page, `last` one near the end. CPU is that of this process and, for PostgreSQL, of its server. Memory is the most that
Python allocates for a first page. Target: 0.3 s for both pages. A line with a star reads rows without an index, by
design: see the limits of forms. `--keep` keeps the SQLite file there, for another run.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from statistics import median

from measure import grid

from tests import postgres
from waterclock.connectors.forms.changes import MOST_EDITS, Edit, Origin, apply, write_json
from waterclock.connectors.forms.connector import forms_database_of
from waterclock.connectors.forms.database import ROWS, FormsDatabase
from waterclock.connectors.forms.history import require_registered
from waterclock.connectors.forms.row_lists import RowQuery, count_rows, list_rows
from waterclock.connectors.interface import Setting
from waterclock.flow.form_rights import FormRights
from waterclock.flow.form_views import FormGrant, FormView
from waterclock.flow.forms import Entity, FormField
from waterclock.flow.grants import Grant, GrantedColumn
from waterclock.flow.row_conditions import Comparison, Operand, Operator, bind_condition

ENTITY = Entity("products", "forms", "mdm.products", (
    FormField("sku", "STRING", is_key=True, is_required=True), FormField("land", "STRING"),
    FormField("owner", "STRING"), FormField("price", "DECIMAL(9,2)"), FormField("pack", "INT"),
    FormField("name", "STRING", is_required=True), FormField("secret", "STRING"),
))  # fmt: skip
SHOWN = ("sku", "land", "owner", "price", "pack", "name")
COUNTED = 10_000  # of the pages of forms


def fill(database: FormsDatabase, rows: int) -> None:
    dice = random.Random(7)
    for begin in range(0, rows, MOST_EDITS):
        edits = [
            Edit((f"S{at:07}",), {
                "land": dice.choice(("DE", "FR", "IT", "PL")), "owner": f"p{at % 80_000}" if at % 5 else "all",
                "price": f"{dice.randrange(100_000) / 100:.2f}", "pack": str(dice.randrange(500)),
                "name": None if at % 20_000 == 9 else f"Product {dice.randrange(10**9)}", "secret": f"hush {at}",
            }, None)
            for at in range(begin, min(begin + MOST_EDITS, rows))
        ]  # fmt: skip
        if not database.is_server:
            apply(database, ENTITY, by=FormRights("bench"), why="bench", edits=edits, origin=Origin.PUBLISH)
            continue
        with database.open_for_writing("bench") as session:  # without history, which lists do not read
            session.execute("SET LOCAL session_replication_role = replica")
            with session.connection.cursor().copy(
                f"COPY {ROWS} (entity, key, version, waits, content) FROM STDIN"
            ) as to:
                for at, edit in enumerate(edits, begin + 1):
                    content = {"sku": edit.key[0], **(edit.values or {})}
                    to.write_row((ENTITY.name, *edit.key, at, int(content["name"] is None), write_json(content)))


def view(column: str, operator: Operator, *values: Operand) -> FormView:
    condition = bind_condition(Comparison(column, operator, values), ENTITY.fields_by_name, {})
    grant = Grant((ENTITY.table,), frozenset(), tuple(map(GrantedColumn, SHOWN)), is_open=False)
    return FormView(ENTITY, (FormGrant(grant, condition),))


def requests(rows: int) -> Mapping[str, tuple[FormView | None, RowQuery, RowQuery | None]]:
    """Return the view, the first and the last page of each line."""
    page, late = RowQuery(limit=100), f"S{rows - rows // 50:07}"
    last = replace(page, after=late)
    price = replace(page, sort="price")
    by_price = replace(price, after=late, at="989.00")
    german, own = view("land", Operator.EQUAL, "DE"), view("owner", Operator.EQUAL, "p7")
    some = view("owner", Operator.EQUAL, "p7", "p8", "p9")
    dear = view("price", Operator.MORE, Decimal(999))
    none = replace(page, text="zebra")
    return {
        "all: list": (None, page, last),
        "all: sorted by price": (None, price, by_price),
        "all: price, descending": (None, replace(price, is_descending=True), replace(by_price, is_descending=True)),
        "all: sorted by land": (None, replace(page, sort="land"), replace(last, sort="land", at="PL")),
        "all: owner = p9": (None, replace(page, equal={"owner": "p9"}), None),
        "all: only waiting": (None, replace(page, is_waiting=True), None),
        "all: a search of many rows": (None, replace(page, text="product 9"), replace(last, text="product 9")),
        "all: a search of none": (None, none, replace(none, after=late)),
        "land = DE: list": (german, page, last),
        "land = DE: sorted by price": (german, price, by_price),
        "land = DE: a search of none": (german, none, replace(none, after=late)),
        "13 rows by owner: list": (own, page, None),
        "13 rows by owner: sorted by price": (own, price, None),
        "13 rows by owner: a search of none": (own, none, None),
        "39 rows of three owners: list": (some, page, None),
        "1,000 rows by price > 999: list *": (dear, page, last),
        "1,000 rows by price > 999: sorted by land *": (dear, replace(page, sort="land"), None),
        "1,000 rows by price > 999: a search of none *": (dear, none, None),
    }


def show(database: FormsDatabase, seen: FormView | None, query: RowQuery) -> int:
    found = len(list_rows(database, ENTITY, query, seen).rows)
    count_rows(database, ENTITY, COUNTED, seen)
    return found


def server_cpu(server: postgres.Server | None) -> float:
    """Return the CPU of the connections of a server that have ended."""
    if server is None:
        return 0.0
    time.sleep(0.05)
    pid = (server.folder / "data" / "postmaster.pid").read_text().split()[0]
    spent = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(spent[13]) + int(spent[14])) / 100


def costs(database: FormsDatabase, server: postgres.Server | None, rows: int, rounds: int) -> list[list[str]]:
    found = []
    for name, (seen, first, last) in requests(rows).items():
        times: list[str] = []
        listed = ""
        for query in (first, last):
            spent, count = [], 0
            for _ in range(rounds if query is not None else 0):
                begun, there = time.process_time(), server_cpu(server)
                count = show(database, seen, query or first)
                spent.append((time.process_time() - begun, server_cpu(server) - there))
            times += [f"{median(a + b for a, b in spent):.2f}" if spent else ""]
            listed = listed or str(count)
        tracemalloc.start()
        show(database, seen, first)
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        found.append([name, "postgres" if server else "sqlite", listed, *times, f"{memory / 1e6:.1f}"])
        print(found[-1], file=sys.stderr, flush=True)
    return found


def measured(kind: str, folder: Path, rows: int, rounds: int) -> list[list[str]]:
    server, options = None, {}
    if kind == "postgres":
        server = postgres.server()
        schema = server.fresh_schema()
        server.run(f"CREATE SCHEMA {schema}")
        options = {"url": server.url, "schema": schema}
    database = forms_database_of(Setting("forms", options, folder, folder / "storage" / "archive"))
    if server or not Path(database.database_path).is_file():
        fill(database, rows)
    begun, there = time.process_time(), server_cpu(server)
    require_registered(database, ENTITY)
    spent = time.process_time() - begun + server_cpu(server) - there
    if server:
        server.run(f"ANALYZE {schema}.waterclock_forms_rows")
    return [["the indexes of six columns", kind, "", f"{spent:.2f}", "", ""], *costs(database, server, rows, rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--databases", default="sqlite,postgres")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as name:
        for kind in asked.databases.split(","):
            lines += measured(kind, asked.keep or Path(name), asked.rows, asked.rounds)
    print(f"{asked.rows:,} rows, medians of {asked.rounds} rounds.\n")
    print(grid(["", "", "rows", "first, s CPU", "last, s CPU", "MB"], lines))


if __name__ == "__main__":
    main()
