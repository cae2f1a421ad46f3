"""Draws the flow of a life with forms: collects of them, transforms that read them, and a queue that fills one.

The forms and these transforms are drawn by a generator of their own, with the collects that the seed has without forms.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from tests.life.declarations import Declared
from tests.life.drawing import Flow, add_parts, drawn_publish, pairs_of, transform
from tests.life.part import BY_LABEL
from tests.life.parts import KeyOnce, KeyPast, Partial, Retain

LIVES = 20
"""The number of lives with forms in a soak."""
ATTEMPTS = 200
CANDIDATES = 3


def seeds_with_forms(soak: int | None) -> range:
    """Return the seeds of a soak's lives with forms by its number; by default those of the first soak."""
    first = (soak or 0) * LIVES
    return range(first, first + LIVES)


def add_forms(random: Random, flow: Flow) -> None:
    """Replace the transforms and publishes of a flow by others, most of which read forms."""
    collects = [table for table in flow.values() if table.kind == "COLLECT"][: random.choice((1, 1, 2))]
    lengths = collects[0].hours, {24: 1, 12: 2, 8: 3, 6: 2}[collects[0].hours]
    drawn = [_drawn(random, collects, lengths) for _ in range(CANDIDATES)]
    flow.clear()
    chosen: Flow = max(drawn, key=_value)
    flow.update(chosen)


def _value(flow: Flow) -> tuple[bool, int]:
    return any(table.way == "queue" for table in flow.values()), len(pairs_of(flow))


def _drawn(random: Random, collects: list[Declared], lengths: tuple[int, int]) -> Flow:
    flow = {table.name: table for table in collects}
    for number in range(random.choice((1, 1, 1, 2))):
        form = _form(random, f"raw.f{number}", lengths)
        flow[form.name] = form
    forms = [table.name for table in flow.values() if table.is_form]
    for number in range(random.choice((2, 2, 3))):
        flow[f"made.t{number}"] = _reader(random, f"made.t{number}", flow, lengths, () if number == 2 else forms)
    for table in flow.values():
        if table.mode == "REPLACE" and table.has(Partial):  # a table whose older states are not known, if it is read
            table.parts = [part for part in table.parts if not isinstance(part, Partial)]
    publish = drawn_publish(random, flow, 0)
    flow[publish.name] = publish
    able = [table for table in flow.values() if _has_each_key_once(table)]
    # the keys of forms alone are no news to a form
    of_sources = [table for table in able if not (table.reads and flow[table.reads[0].table].is_form)]
    if able:
        queue = drawn_publish(random, flow, 0, of=random.choice(of_sources or able))
        queue.name, queue.way = f"forms.{flow[random.choice(forms)].source}", "queue"
        flow[queue.name] = queue
    return flow


def _form(random: Random, name: str, lengths: tuple[int, int]) -> Declared:
    form = Declared("COLLECT", name, "REPLACE", is_form=True, needs_approval=random.random() < 0.3)
    form.hours, form.size = lengths[0], lengths[1] if random.random() < 0.3 else 1
    form.start = 1 + form.size * random.choice((0, 0, 1, 2))
    add_parts(random, form)
    return form


def _reader(random: Random, name: str, flow: Flow, lengths: tuple[int, int], forms: Collection[str]) -> Declared:
    """Draw a transform that reads one of these forms, if there are any, also through its other reads."""
    for _ in range(ATTEMPTS):
        table = transform(random, name, flow, lengths)
        if not forms or any(read.table in forms for read in table.all_reads):
            return table
    raise AssertionError(f"no drawn transform reads one of {forms}")


def _has_each_key_once(table: Declared) -> bool:
    """Return whether a label, or the state, has each key once, so that it can be published by its key."""
    if table.kind == "PUBLISH" or table.is_form:
        return False
    if table.mode in BY_LABEL:
        return not table.is_snapshot and (table.groups or table.has(KeyOnce, KeyPast)) and not table.has(Retain)
    return table.mode == "MERGE" or (table.mode == "REPLACE" and table.groups)
