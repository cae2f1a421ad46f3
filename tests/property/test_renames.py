"""Random lives in which tables are renamed come to what a clean rebuild comes to, and no rename makes anything run.

Names change in the ledger; the driver of the model, which knows nothing of that, gets all that it has noted in the new
names. What a batch makes goes by the name that its table had at first.
"""

from __future__ import annotations

from copy import copy
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

import pytest

from tests.model.bookkeeping import Bookkeeper
from tests.model.driving import Driver
from tests.model.random_flow import random_flow
from tests.property.test_model import compare
from waterclock.flow.about import About
from waterclock.flow.declarations import Flow
from waterclock.planner.planning import Planner

_OUR_OWN = {"random", "flow", "lake", "ledger", "planner", "clock", "books"}
_PLAIN = "waterclock.timelabel"


class Renaming(Driver):
    """A life in which some tables get other names whenever it has come to rest."""

    __slots__ = ()

    def pass_time(self) -> None:
        if self.random.random() < 0.6:
            rename_some(self)
        elif self.random.random() < 0.5:
            forget_former(self)
        Driver.pass_time(self)


def rename_some(driver: Driver) -> None:
    tables = driver.flow.tables
    own = [name for name, table in tables.items() if table.open_of is None and table.late_rows is None]
    chosen = driver.random.sample(sorted(own), driver.random.randint(1, min(3, len(own))))
    names = {name: f"n{driver.turn}.{name.replace('.', '_')}" for name in chosen}
    flow = renamed(driver.flow, names)
    said = {
        name: replace(
            table, was=names_of(names).get(name), about=table.about if table.about.comment else About(None, (), was)
        )
        for was, (name, table) in zip(tables, flow.tables.items(), strict=True)
    }
    flow = replace(flow, tables=said, fingerprint=f"flow of turn {driver.turn}")
    looked = None
    if driver.random.random() < 0.5:
        driver.ledger.declared.apply_pending_renames(flow)
        looked = Planner(flow).plan(driver.ledger.reads.snapshot(flow), driver.now).to_dict()
    sequence = driver.ledger.declared.apply(flow, who="test", now=driver.now, runner="test")
    assert sequence.fingerprint == flow.fingerprint
    take_over(driver, flow, names)
    plan = driver.planner.plan(driver.snapshot(), driver.now).to_dict()
    assert looked is None or looked == plan


def forget_former(driver: Driver) -> None:
    tables = {name: replace(table, was=None) for name, table in driver.flow.tables.items()}
    driver.flow = replace(driver.flow, tables=tables, fingerprint=f"plain flow of turn {driver.turn}")
    driver.ledger.declared.apply(driver.flow, who="test", now=driver.now, runner="test")
    take_over(driver, driver.flow, {})


def take_over(driver: Driver, flow: Flow, names: dict[str, str]) -> None:
    """Have the driver go on in the new names."""
    for each in fields(Driver):
        if each.name not in _OUR_OWN:
            setattr(driver, each.name, renamed(getattr(driver, each.name), names))
    driver.flow, driver.planner = flow, Planner(flow)
    for part in ("tables", "grains", "source"):
        setattr(driver.lake, part, renamed(getattr(driver.lake, part), names))
    for name, toy in driver.lake.tables.items():
        toy.table = flow.tables[name]
    books = Bookkeeper(driver.random, flow, driver.lake, driver.ledger, driver.planner)
    for each in fields(Bookkeeper):
        if each.name not in _OUR_OWN:
            setattr(books, each.name, renamed(getattr(driver.books, each.name), names))
    books.held = []  # what somebody had seen, and never wrote down
    driver.books = books


def renamed(value: Any, names: dict[str, str]) -> Any:
    """Return anything with other names in it."""
    if isinstance(value, About):  # what a table was called at first stays so
        return value
    if isinstance(value, str):
        return names.get(value, value) if type(value) is str else value
    if isinstance(value, dict):
        empty = copy(value)  # a Counter, or one with defaults, stays so
        empty.clear()
        empty.update({renamed(key, names): renamed(each, names) for key, each in value.items()})
        return empty
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(renamed(each, names) for each in value)
    if is_dataclass(value) and not isinstance(value, type) and not type(value).__module__.startswith(_PLAIN):
        return replace(
            value, **{each.name: renamed(getattr(value, each.name), names) for each in fields(value) if each.init}
        )
    return value


def names_of(names: dict[str, str]) -> dict[str, str]:
    return {now: was for was, now in names.items()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(0, 100, 5))
@pytest.mark.parametrize("closes", [False, True])
def test_random_flows_with_renames_yield_the_rows_of_a_clean_rebuild(first: int, *, closes: bool) -> None:
    for seed in range(first, first + 5):
        random = Random(seed)
        driver = Renaming.of(random_flow(random, closes=closes), random)
        try:
            driver.live((0.0, 0.1))
            compare(driver)
        except Exception as error:
            error.add_note(f"seed {seed}, closes {closes}")
            raise
        finally:
            driver.ledger.close()
