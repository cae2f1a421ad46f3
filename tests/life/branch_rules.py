"""The expected content of a branch by the rules of docs/howto/try-a-change.md: plain Python, without the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from tests.life.books import TROUBLED, Option
from tests.life.declarations import Declared
from tests.life.drawing import Flow
from tests.life.oracle import Oracle
from tests.life.part import BY_LABEL, DONE, FOLDS
from tests.life.parts import KeyOnce, KeyPast, Refers, Report
from tests.life.rows import Row, Rows

NEWEST = 7
"""How many windows of a table a branch makes."""


class Difference(NamedTuple):
    """The difference of a label: its row count on each side (None: it has no rows there), and the changes by kind."""

    before: int | None
    after: int | None
    added: int = 0
    removed: int = 0
    changed: int = 0


def start_branch(oracle: Oracle) -> None:
    """Turn a copy of an oracle into that of a branch: without requests, pauses and ON RESTATE REPORT."""
    for table in oracle.tables.values():
        table.parts = [part for part in table.parts if not isinstance(part, Report)]
    for book in oracle.books.values():
        book.asked.clear()
    oracle.paused = set()


def own_tables(flow: Flow, changed: str) -> list[str]:
    """Return the transforms that a branch makes: the changed one and all that depend on it."""
    reached = {changed}
    for name, table in flow.items():
        if table.kind != "PUBLISH" and _inputs(flow, table) & reached:
            reached.add(name)
    return [name for name in flow if name in reached and flow[name].kind == "TRANSFORM" and not flow[name].answers]


def _inputs(flow: Flow, table: Declared) -> set[str]:
    flats = [flow[read.table].part(Refers) for read in table.all_reads if read.kind == "FLAT"]
    return {*table.inputs, *(part.parent for part in flats if isinstance(part, Refers))}


def newest_labels(oracle: Oracle, name: str, own: Collection[str] = ()) -> list[int]:
    """Return the labels of a table that a branch makes: the newest windows up to the last one that production made.

    In the branch's `own` tables, failed and held labels count as made.
    """
    table, start = oracle.tables[name], oracle.start(name)
    end = _end(oracle, name, own)
    low = max(start, end - NEWEST * table.size)
    return list(range(low + (start - low) % table.size, end, table.size))


def _end(oracle: Oracle, name: str, own: Collection[str]) -> int:
    """Return the end day of the newest window that production made; without one, that of the table's inputs.

    For an own table, a newer batch that was tried counts too, and own tables that depend on it reach as far as their
    inputs. Return 0 if there is none.
    """
    table, now = oracle.tables[name], oracle.tables[name].window_of(oracle.today)
    inputs = _inputs(oracle.tables, table)
    ends = [end for read in sorted(inputs) if (end := _end(oracle, read, own))]
    of_inputs = min(table.window_of(min(ends)), now) if ends else 0
    made = _made_end(oracle, name)
    tried = _tried_end(oracle, name) if name in own else 0
    if not made:
        return max(tried, of_inputs)
    comes_further = name in own and any(
        _made_end(oracle, it) and _end(oracle, it, own) > _made_end(oracle, it) for it in inputs
    )
    return max(made, tried, of_inputs if comes_further else 0)


def _made_end(oracle: Oracle, name: str) -> int:
    shown = oracle.books[name].shown
    return max(shown) + oracle.tables[name].size if shown else 0


def _tried_end(oracle: Oracle, name: str) -> int:
    tried = [label for label, status in oracle.books[name].status.items() if status in TROUBLED]
    return max(tried) + oracle.tables[name].size if tried else 0


def request_newest(oracle: Oracle, name: str, labels: list[int]) -> None:
    """Request the newest labels that were made by other code, and retry failed ones, as a run of a branch does."""
    book, code = oracle.books[name], oracle.tables[name].code
    for label in labels:
        try_again(oracle, name, label)
        if label in book.shown and book.shown[label].code != code:
            book.asked[label] = "recompute"


def try_again(oracle: Oracle, name: str, label: int) -> None:
    """Make a failed or held label due again. A label with rows is made again only if it differs."""
    book = oracle.books[name]
    if book.status.get(label) in TROUBLED:
        oracle.ask(name, label, "retry")
        if label in book.shown:
            book.status[label] = DONE
            del book.asked[label]


def branch_options(oracle: Oracle, name: str, labels: list[int]) -> dict[int, list[Option]]:
    """Return the possible outcomes of an own table's labels after a run that makes some of them."""
    options, table = unchanged(oracle, name), oracle.tables[name]
    for label, found in oracle.options(name).items():
        if label not in labels:
            continue
        options[label] = found
        if table.mode == "REPLACE":
            # the newest label is made, even if the label of the tick is a later one that production has not made
            states = oracle.state_options(table, label, is_newest=True) if label == labels[-1] else found
            # older states, which production makes only if they are read, are made here because they were requested
            options[label] = [it for it in states if it.asked is None] or states
    return options


def unchanged(oracle: Oracle, name: str) -> dict[int, list[Option]]:
    """Return the state of a table's labels if no event changes them, without those that `maintain` has dropped."""
    book, first = oracle.books[name], oracle.dropped.get(name, 0)
    return {label: [book.option(label)] for label in sorted({*book.status, *book.shown}) if label >= first}


def is_known(before: Oracle, after: Oracle, name: str, label: int) -> bool:
    """Return whether both sides of a label are known: of a table with one state, queries show only the newest label."""
    table = after.tables[name]
    if table.mode != "REPLACE" or table.is_snapshot:
        return True
    return all(label == max(oracle.books[name].shown, default=0) for oracle in (before, after))


def differences(before: Oracle, after: Oracle, name: str) -> dict[int, Difference]:
    """Compare the slices of a table by brute force."""
    sides = [_slices(before, name), _slices(after, name)]
    table = after.tables[name]
    first = max(_kept_from(oracle, name) for oracle in (before, after))
    is_keyed = table.mode in FOLDS or table.has(KeyOnce, KeyPast)
    found: dict[int, Difference] = {}
    for label in sorted({*sides[0], *sides[1]}):
        if label < first or not is_known(before, after, name, label):
            continue
        old, new = (side.get(label) for side in sides)
        if old is None or new is None:
            found[label] = Difference(None if old is None else len(old), None if new is None else len(new))
        elif Counter(old) != Counter(new):
            found[label] = _difference(old, new, is_keyed=is_keyed)
    return found


def _difference(old: Rows, new: Rows, *, is_keyed: bool) -> Difference:
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    if not is_keyed:
        return Difference(len(old), len(new), come.total(), gone.total())
    gone_keys, come_keys = _keys(gone), _keys(come)
    changed = sum(gone_keys[key] == come_keys[key] == 1 for key in gone_keys)
    return Difference(len(old), len(new), come.total() - changed, gone.total() - changed, changed)


def _keys(rows: Mapping[Row, int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for row, times in rows.items():
        found[row.k] += times
    return found


def _slices(oracle: Oracle, name: str) -> dict[int, Rows]:
    return {label: made.stay for label, made in oracle.books[name].shown.items()}


def _kept_from(oracle: Oracle, name: str) -> int:
    """Return the first label that a side has: RETAIN bounds the reads of a table, and `maintain` drops older labels."""
    table, shown = oracle.tables[name], oracle.books[name].shown
    is_by_label = table.mode in BY_LABEL and not table.is_snapshot
    kept = oracle._kept_from(table, max(shown)) if shown and is_by_label else 0
    return max(oracle.dropped.get(name, 0), kept)
