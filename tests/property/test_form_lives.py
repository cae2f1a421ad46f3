"""Random lives of forms without an engine: each window has the rows of its end, whatever people do before and after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.life.editing import Editing
from tests.life.favour import Met
from tests.life.form_book import Content
from tests.life.lives import Life
from tests.life.rows import Row
from tests.systems import unit_of
from waterclock.connectors.forms.changes import NewBatch, Origin, write_batch
from waterclock.connectors.forms.collection import FormsCollector
from waterclock.connectors.interface import Collected, WindowRequest
from waterclock.flow.declarations import Columns, Unit
from waterclock.testing.connectors import declared

LIVES = 200


@dataclass
class Frame:
    """Rows in the place of a Spark frame, by the start of their window."""

    rows: list[Any]

    def selectExpr(self, *_columns: str) -> Frame:  # noqa: N802 - Spark's name
        return self


class PlainCollector(FormsCollector):
    """Collects forms, and runs the query of the rows in the database without Spark."""

    @property
    def _reader(self) -> Any:
        return self

    def read_windows(self, _spark: Any, unit: Unit, _windows: WindowRequest, _columns: Columns, _zone: str) -> Any:
        """Return the rows of a query."""
        with self.database.open_for_reading("forms") as session:
            return Collected(Frame(session.rows_of(unit.query or "")))  # type: ignore[arg-type]


@dataclass
class FormLife(Life):
    """A life of forms: its runs collect them, and insert keys, by the product's functions."""

    def run(self, *, is_last: bool = False) -> None:
        super().run(is_last=is_last)
        for form, name in self.forms.items():
            if name not in self.paused and self.oracle.due(name):
                self._collect(form, name)

    def _collect(self, form: str, name: str) -> None:
        """Collect all windows of a form, and compare them with the oracle."""
        assert self.steward is not None
        self.steward.at = self.moment(self.oracle.today)
        windows = {self._window(name, label): label for label in self.oracle.due(name)}
        listed = declared(("k", "BIGINT"), ("v", "BIGINT"), ("at", "TIMESTAMP"))
        key, *values = listed.named
        named = (replace(key, is_key=True), *(replace(it, is_not_null=True) for it in values))
        columns = replace(listed, named=named, is_open=False)
        collected: Any = PlainCollector(self.steward.database).read_states(
            None, unit_of("forms", form), [*windows], columns  # type: ignore[arg-type]
        )  # fmt: skip
        found: dict[str, list[Row]] = {f"{window.start:%F %T}": [] for window in windows}
        for k, v, at, start in collected.frame.rows:
            found[start].append(Row(int(k), int(v), self.steward.minute(at)))
        for window, label in windows.items():
            assert tuple(sorted(found[f"{window.start:%F %T}"])) == self.oracle.rows_of_form(self.flow[name], label), (
                label
            )

    def _look_at_queue(self, name: str, form: str, *, is_calm: bool) -> None:
        keys = {key for key, _ in self.oracle.delivered(self.flow[name])[0]} - self.oracle.forms[form].had
        if is_calm and keys and self.steward is not None:
            self.steward.at = self.moment(self.oracle.today)
            with self.steward.database.open_for_writing("forms") as session:
                new = NewBatch(form, "a publish", "new", Origin.PUBLISH)
                rows = {str(key): {"k": str(key)} for key in sorted(keys)}
                write_batch(self.steward.database, session, new, rows, {}, ("v", "at"))
        super()._look_at_queue(name, form, is_calm=is_calm)


def lived(seed: int, folder: Path) -> FormLife:
    life = FormLife(Random(seed), Met(), edits=Random(f"forms {seed}"), breaks=Random(f"breaks {seed}"))
    life.steward = life.opened_forms(folder, is_server=False)
    assert life.steward is not None
    with life.steward.clock():
        life.live()
    return life


@pytest.mark.sampled(12, by_commit=True)
@pytest.mark.parametrize("seed", range(LIVES))
def test_each_window_of_a_form_has_the_rows_of_its_end(seed: int, tmp_path: Path) -> None:
    lived(seed, tmp_path)


def test_the_lives_have_late_edits_waiting_rows_and_refusals(tmp_path: Path) -> None:
    """A life would show nothing otherwise."""
    lives = []
    for seed in range(6):
        (tmp_path / str(seed)).mkdir()
        lives.append(lived(seed, tmp_path / str(seed)))
    changes = [change for life in lives for book in life.oracle.forms.values() for change in book.changes]
    ends = {end for life in lives for name in life.forms.values() for end in _ends(life, name)}
    told = "\n".join(line for life in lives for line in life.story)
    assert sum(change.after == Content() for change in changes) > 3
    assert any(change.at in ends for change in changes)
    assert all(code in told for code in ("E891", "E892", "approve proposal", "undo of", "pasted"))


def _ends(life: Editing, name: str) -> list[Any]:
    return [life.moment(label + life.flow[name].size) for label in life.oracle.due(name)]
