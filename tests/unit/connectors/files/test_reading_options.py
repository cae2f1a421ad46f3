"""The meaning of options of a unit of files, and their errors before any file exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.files.reading_options import (
    Outer,
    Position,
    cells_of,
    find_read_option_errors,
    outer_of,
    positions_of,
)
from waterclock.connectors.files.sheet_rows import Cells
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import check_project
from waterclock.flow.declarations import Value


def test_positions_are_counted_from_one_and_the_last_may_be_open() -> None:
    assert positions_of("id 1-6,name 7 - 30 , rest 31-") == (
        Position("id", 1, 6),
        Position("name", 7, 30),
        Position("rest", 31, None),
    )


def test_outer_fields_of_records_are_resolved_from_the_root() -> None:
    assert outer_of("a.id AS a_id, at", ("a", "b")) == (Outer("a_id", 1, ("id",)), Outer("at", 0, ("at",)))


@pytest.mark.parametrize(
    ("text", "cells"),
    [("B3", Cells(2, 1)), ("a1:C", Cells(0, 0, None, 2)), ("A2:AB10", Cells(1, 0, 9, 27))],
)
def test_a_range_is_its_corners(text: str, cells: Cells) -> None:
    assert cells_of(text) == cells


@pytest.mark.parametrize(
    ("options", "path", "option", "code"),
    [
        ({"rows": "a..b"}, "acme.orders", "rows", "E335"),
        ({"rows": "a", "outer": "a.b"}, "acme.orders", "outer", "E335"),
        ({"rows": "a", "outer": "b AS"}, "acme.orders", "outer", "E335"),
        ({"outer": "b"}, "acme.orders", "outer", "E336"),
        ({"positions": "id 6-1"}, "acme.orders", "positions", "E335"),
        ({"positions": "id"}, "acme.orders", "positions", "E335"),
        ({"range": "B3:A1"}, "acme.orders", "range", "E335"),
        ({"range": "3"}, "acme.orders", "range", "E335"),
        ({"delimiter": "||"}, "acme.orders", "delimiter", "E335"),
        ({"delimiter": "\\t"}, "acme.orders", "delimiter", "E335"),
        ({"quote": "''"}, "acme.orders", "quote", "E335"),
        ({"escape": "\\\\"}, "acme.orders", "escape", "E335"),
        ({}, "in/*.xml", "", "E338"),
        ({}, "in/*.xml.gz", "", "E338"),
        ({"rows": "order"}, "in/*.txt", "", "E338"),
        ({"rows": "orders.order"}, "x/*.xml", "rows", "E335"),
        ({"rows": "order", "outer": "id"}, "x/*.xml", "outer", "E335"),
    ],
)
def test_options_of_another_form_are_refused(options: dict[str, Value], path: str, option: str, code: str) -> None:
    assert [(each.option, each.code) for each in find_read_option_errors(options, path)] == [(option, code)]


@pytest.mark.parametrize(
    ("options", "path"),
    [({}, "acme.orders"), ({"rows": "order"}, "in/*.xml"), ({"positions": "id 1-6"}, "*.txt"), ({"range": "A1"}, "*")],
)
def test_options_that_go_are_not(options: dict[str, Value], path: str) -> None:
    assert not list(find_read_option_errors(options, path))


def test_check_reports_the_position_of_an_invalid_option(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    settings = '[project]\nname = "shop"\n[env.dev]\nconnections.land = { path = "new" }\n'
    (tmp_path / "waterclock.toml").write_text(settings)
    when = "EVERY DAY START '2026-01-01' BY ARRIVAL TIME"
    flow = f"""CREATE CONNECTION land TYPE files;
COLLECT a.a PARTITIONED FROM land.`a/*.json` OPTIONS (outer 'id') {when};
COLLECT a.b PARTITIONED FROM land.`b/*.xml` {when};
COLLECT a.c PARTITIONED FROM land.`c/*.txt` OPTIONS (positions 'id 6-1') {when};
PUBLISH a.a TO land.out.a OPTIONS (format 'excel', compression 'gzip');
PUBLISH a.b TO land.out.b OPTIONS (format 'xml');
"""
    (tmp_path / "flows" / "a.dpl").write_text(flow)
    _, errors = check_project(tmp_path, capabilities=capabilities())
    assert [(error.code, str(error.where)) for error in errors] == [
        ("E336", "flows/a.dpl:2:55"),
        ("E338", "flows/a.dpl:3:30"),
        ("E335", "flows/a.dpl:4:54"),
        ("E337", "flows/a.dpl:5:52"),
        ("E223", "flows/a.dpl:6:36"),
    ]
