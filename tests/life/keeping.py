"""A table of a life with APART, the table of its persons, and the view that joins both.

The rules are those of docs/howto/keep-people-apart.md. The three are added to a flow that is drawn without them. No
other table reads them.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.life.books import Unexpected
from tests.life.branching import has_branch
from tests.life.declarations import Declared
from tests.life.drawing import Flow, transform
from tests.life.oracle import Oracle
from tests.life.part import SKIPPED
from tests.life.parts import Drop, Fail, Groups, Hold, OverTable, Partial, Quarantine, Sequential
from tests.life.people import Apart, Impersonal, Personal, Persons
from tests.life.rows import Row, Slices
from tests.life.world import World

EVENTS, PERSONS = "made.p", "made.p_apart"
RULES = (Drop, Fail, Groups, Hold, OverTable, Quarantine, Sequential, Personal, Impersonal)
"""The declarations of a table with APART: rules about the value, which stays with the events."""
ATTEMPTS = 200


def has_apart(seed: int) -> bool:
    """Return whether the life of a seed has a table with APART: 60 of 240, half of which have tokens as well."""
    return not has_branch(seed) and seed % 8 in {3, 5}


def add_apart(random: Random, flow: Flow) -> None:
    """Add a table with APART and that of its persons after the existing tables, before they are published."""
    tables = {name: table for name, table in flow.items() if table.kind != "PUBLISH"}
    lengths = next(iter(tables.values())).hours, max(table.size for table in tables.values())
    for _ in range(ATTEMPTS):
        drawn = transform(random, EVENTS, tables, lengths)
        if _can_be_apart(drawn, tables):
            break
    else:
        return
    texts = any(table.has_texts for table in tables.values())
    rules = [part for part in drawn.parts if isinstance(part, RULES)]
    shared = [part for part in rules if isinstance(part, Sequential)]
    tables[EVENTS] = replace(drawn, parts=[*rules, Apart()], has_texts=texts)
    tables[PERSONS] = replace(drawn, name=PERSONS, parts=[*shared, Persons()], has_texts=texts)
    publishes = {name: table for name, table in flow.items() if table.kind == "PUBLISH"}
    flow.clear()
    flow.update(tables | publishes)


def _can_be_apart(table: Declared, tables: Flow) -> bool:
    """Return whether a table may have APART, and both of its tables have the same inputs at any time."""
    if table.mode != "PARTITIONED" or table.answers or table.odd:
        return False
    if any(tables[name].mode == "REPLACE" and tables[name].has(Partial) for name in table.inputs):
        return False
    return not any(read.kind == "LATEST" or read.table == EVENTS for read in table.reads)


def joined_rows(oracle: Oracle) -> Slices:
    """Return the rows of the joining view for each label whose two batches have the same inputs.

    The key is 0, for NULL, for persons whose columns are gone: erased, given up or skipped.
    """
    found: Slices = {}
    events, persons = oracle.books[EVENTS], oracle.books[PERSONS]
    for label, made in events.shown.items():
        other = persons.shown.get(label)
        is_skipped = other is None and persons.status.get(label) == SKIPPED
        if is_skipped or (other is not None and other.inputs == made.inputs):
            known = {row.k for row in other.stay} if other is not None else set()
            found[label] = tuple(sorted(Row(row.k if row.k in known else 0, row.v, row.at) for row in made.stay))
    return {label: rows for label, rows in found.items() if rows}


def look_at_joined(world: World | None, oracle: Oracle) -> None:
    """Compare the joining view with its tables, if there is one.

    Raises  Unexpected if it shows other rows or labels
    """
    if world is None or EVENTS not in oracle.tables or not oracle.books[EVENTS].shown:
        return
    found, expected = world.joined(EVENTS), joined_rows(oracle)
    if found != expected:
        raise Unexpected(f"{EVENTS}_whole has {found}, not {expected}")
