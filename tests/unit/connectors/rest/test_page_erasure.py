"""Records of erased persons are removed from stored pages of an API; the remaining ones stay readable and unchanged."""

from __future__ import annotations

import gzip
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.systems import setting_of, unit_of
from waterclock.connectors.original_erasure import OriginalEraser, OriginalErasure, Subjects
from waterclock.connectors.rest.connector import RestCollector
from waterclock.connectors.rest.page_store import Page, Series, lines_of
from waterclock.connectors.rest.response_store import answer_of, asked_member
from waterclock.faults import inject_faults
from waterclock.flow.declarations import Columns

NOW = datetime(2020, 1, 1, tzinfo=UTC)


def series_of(folder: Path, inner: str = "w=20200101000000/digest/000001") -> Series:
    return Series(folder / "storage" / "archive" / "api" / "orders" / inner)


def keep(series: Series, number: int, lines: list[str], rows: int | None = None) -> Page:
    content = "".join(f"{line}\n" for line in lines).encode()
    digest = hashlib.sha256(content).hexdigest()
    count = len(lines) if rows is None else rows
    return series.keep(Page(number, "", count, ("id",), digest, {"page": number}, None, NOW.isoformat()), content)


def erase(folder: Path, *persons: str, requested: tuple[str, ...] = (), **how: Any) -> list[OriginalErasure]:
    collector = RestCollector(setting_of("api", folder, url="https://api.example"))
    assert isinstance(collector, OriginalEraser)
    subjects = Subjects({"id": "BIGINT"}, persons.__contains__)
    unit = unit_of("api", "orders")
    return list(collector.erase_originals(unit, Columns(), subjects, requested=requested, **how))


def records_of(series: Series) -> list[str]:
    """Return the records of all pages; each page must be complete and keep its number."""
    found: list[str] = []
    for page in series.pages():
        series.require_whole(page, "a test")
        lines = list(lines_of(series.folder / page.file))
        assert len(lines) == page.rows
        found += lines
    return found


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(40, 45), max_size=4), min_size=1, max_size=4), st.sets(st.integers(40, 45)))
def test_the_remaining_records_stay(
    tmp_path_factory: pytest.TempPathFactory, ids: list[list[int]], persons: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("pages")
    series = series_of(folder)
    lines = [[f'{{"id":  {one}, "v": 1.10}}' for one in page] for page in ids]
    for number, page in enumerate(lines, 1):
        keep(series, number, page)
    before = list(series.pages())
    counted = erase(folder, *map(str, persons), is_dry_run=True)
    assert list(series.pages()) == before
    assert erase(folder, *map(str, persons)) == counted
    assert records_of(series) == [
        line for page, of in zip(lines, ids, strict=True) for line, one in zip(page, of, strict=True)
        if one not in persons
    ]  # fmt: skip
    assert [(page.number, page.place, page.asked_at) for page in series.pages()] == [
        (page.number, page.place, page.asked_at) for page in before
    ]
    assert {file.name for file in series.folder.glob("*.gz")} == {page.file for page in series.pages()}
    assert sum(one.removed for one in erase(folder, *map(str, persons))) == 0


def test_responses_to_a_request_for_a_person_are_removed(tmp_path: Path) -> None:
    series = series_of(tmp_path, "each=shop.customers/w=20200101000000/digest/000001")
    names = [asked_member(0)]
    answers = [answer_of('["42"]', names, ['{"n": 1}', '{"n": 2}'], ["n"], NOW), answer_of('["1"]', names, [], [], NOW)]
    answers.append(answer_of('["7"]', names, ['{"n": 42}'], ["n"], NOW))
    keep(series, 1, [line for answer in answers for line in answer.lines], rows=3)
    (done,) = erase(tmp_path, "42", requested=("ID",))
    assert (done.rows, done.removed) == (4, 2)
    (page,) = series.pages()
    assert page.rows == 1
    assert [json.loads(line)[names[0]] for line in lines_of(series.folder / page.file)] == ["1", "7"]


@pytest.mark.parametrize("point", ["page.rewritten", "erase.page_replaced"])
def test_a_killed_erasure_leaves_a_whole_page_and_is_finished_by_the_next(tmp_path: Path, point: str) -> None:
    series = series_of(tmp_path)
    keep(series, 1, ['{"id": 42}', '{"id": 1}'])

    def strike(at: str) -> None:
        if at == point:
            raise KeyboardInterrupt

    with inject_faults(strike), pytest.raises(KeyboardInterrupt):
        erase(tmp_path, "42")
    assert records_of(series) in (['{"id": 42}', '{"id": 1}'], ['{"id": 1}'])
    erase(tmp_path, "42")
    assert records_of(series) == ['{"id": 1}']
    assert not [path for path in series.folder.glob("*.gz") if b"42" in gzip.decompress(path.read_bytes())]


def test_a_file_that_no_page_names_is_removed_if_it_has_a_person(tmp_path: Path) -> None:
    series = series_of(tmp_path)
    keep(series, 1, ['{"id": 1}'])
    for name, line in (("page-000001-aaaa.ndjson.gz", b'{"id": 42}\n'), ("page-000001-bbbb.ndjson.gz", b'{"id": 2}\n')):
        (series.folder / name).write_bytes(gzip.compress(line))
    erase(tmp_path, "42")
    names = {path.name for path in series.folder.glob("*.gz")}
    assert "page-000001-aaaa.ndjson.gz" not in names
    assert len(names) == 2


def test_a_damaged_page_is_reported_and_stays(tmp_path: Path) -> None:
    series = series_of(tmp_path)
    page = keep(series, 1, ['{"id": 42}', '{"id": 1}'])
    path = series.folder / page.file
    for damage in (gzip.compress(b'{"id": 42}\n'), path.read_bytes()[:-9]):
        path.write_bytes(damage)
        (found,) = erase(tmp_path, "42")
        assert found.problem
        assert path.read_bytes() == damage
