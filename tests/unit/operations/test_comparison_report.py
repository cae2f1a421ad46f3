"""A comparison as text: for a terminal, and as Markdown that values cannot break."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests import ledgers
from tests.json_answers import check_answer
from waterclock.cli.views.diff import print_comparison, print_markdown
from waterclock.cli.views.theme import make_console
from waterclock.engine.query.row_comparison import ColumnChanges, DifferingRow, LargestChange, RowCounts
from waterclock.engine.query.table_comparison import ColumnTypeChange, LabelDifference, TableComparison
from waterclock.errors import WaterclockError
from waterclock.operations.comparing import ComparedTable, Comparison
from waterclock.operations.comparison_report import MOST_LABELS, comparison_answer, describe_change

EVIL = "a|b\n<script>`x`"
LABEL = "20260102000000"
FLOW = ledgers.flow(ledgers.table("marts.net"), ledgers.table("marts.sums"))


def day(number: int) -> datetime:
    return datetime(2026, 1, number, tzinfo=UTC)


FOUND = TableComparison(
    "marts.net",
    key=("id",),
    equal=1234,
    read=2,
    labels=(
        LabelDifference(
            day(2), 3, 5, RowCounts(added=2, changed=1), has_other_columns=True, measures={"total": ("1", None)}
        ),
        LabelDifference(day(3), None, 5),
        LabelDifference(day(4), None, 6),
        LabelDifference(day(6), None, 7),
        LabelDifference(day(7), 8, None),
    ),
    types=(ColumnTypeChange("more", None, "int", 1),),
    columns=(
        ColumnChanges("net", 1, LargestChange(LABEL, (7,), Decimal("1.10"), Decimal("2.20"))),
        ColumnChanges("note", 1),
    ),
    sample=(
        DifferingRow(
            "changed",
            LABEL,
            {"id": 7, "net": Decimal("1.10"), "f": float("nan"), "note": None},
            {"id": 7, "net": Decimal("2.20"), "f": float("nan"), "note": EVIL},
        ),
        DifferingRow("added", LABEL, None, {"id": 8, "net": None, "f": 1.5, "note": "x" * 100}, times=2),
    ),
)
COMPARED = Comparison(
    "in prod",
    "in dev",
    "dev",
    (
        ComparedTable("marts.net", FOUND, dropped_before=day(1), held=(day(9),)),
        ComparedTable("marts.sums", None, WaterclockError("E640", "the rows are gone"), single=3),
    ),
    against="prod",
)


def shown(compared: Comparison) -> list[str]:
    stream = io.StringIO()
    print_comparison(make_console(stream, width=150), compared, FLOW)
    return [" ".join(line.split()) for line in stream.getvalue().splitlines()]


def test_differences_are_shown_from_labels_to_rows() -> None:
    lines = shown(COMPARED)
    assert lines[0] == (
        "marts.net 1 234 labels equal; 1 label differs; 3 labels only in dev; 1 label only in prod; "
        "rows: 1 changed, 2 added"
    )
    for line in (
        "without labels before 2026-01-01, which RETAIN dropped",
        "a rule holds rows of 2026-01-09, which are not compared",
        "2026-01-02 3 5 1 2 other columns",
        "2026-01-03 .. 2026-01-04 11 2 labels only in dev",
        "2026-01-06 7 only in dev",
        "2026-01-07 8 only in prod",
        "2026-01-02 total 1",
        "more missing int 1",
        "net 1 1.10 → 2.20 2026-01-02, id 7",
        "note 1",
        "changed 2026-01-02 id 7: net 1.10 → 2.20, note null → a|b\\x0a<script>`x`",
        f"added 2026-01-02 2 times: id 8, net null, f 1.5, note {'x' * 59}…",
        "marts.sums not compared: E640 the rows are gone",
        "1 table of 2 differs, 1 table could not be compared. Before: in prod. After: in dev.",
    ):
        assert line in lines


def test_values_cannot_format_the_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    print_markdown(COMPARED, FLOW)
    text = capsys.readouterr().out
    assert "### marts.net\n" in text
    assert "note null → a\\|b\\\\x0a\\<script\\>\\`x\\` |" in text
    assert "| column | before | after | labels |\n| --- | --- | --- | --: |\n| more | missing | int | 1 |\n" in text


def test_names_of_columns_cannot_format_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\x1b[31m|<b>\x0b\u202e"
    found = replace(
        FOUND,
        labels=(LabelDifference(day(2), 3, 5, RowCounts(changed=1), measures={name: ("1", "2")}),),
        types=(ColumnTypeChange(name, None, f"struct<{name}\n:int>", 1),),
        unlike=(name,),
        columns=(ColumnChanges(name, 1),),
        sample=(DifferingRow("changed", LABEL, {"id": 1, name: 1}, {"id": 1, name: 2}),),
    )
    compared = replace(COMPARED, tables=(ComparedTable("marts.net", found),))
    print_markdown(compared, FLOW)
    text = capsys.readouterr().out
    assert "| a\\\\x1b\\[31m\\|\\<b\\>\\\\x0b\\\\u202e | missing |" in text
    assert not {*text} & {"\x1b", "\x0b", "\u202e"}
    assert {line[-1] for line in text.splitlines() if line.startswith("|")} == {"|"}
    lines = shown(compared)
    assert r"a\x1b[31m|<b>\x0b\u202e missing struct<a\x1b[31m|<b>\x0b\u202e\x0a:int> 1" in lines
    assert r"changed 2026-01-02 id 1: a\x1b[31m|<b>\x0b\u202e 1 → 2" in lines


def test_texts_cannot_pass_for_other_values_of_their_row() -> None:
    name = "note 1, net"
    row = DifferingRow(
        "changed", LABEL, {"id": "7: net 1", "t": "a", name: "x"}, {"id": "7: net 1", "t": "b, net 1 → 9", name: "y"}
    )
    lines = shown(replace(COMPARED, tables=(ComparedTable("marts.net", replace(FOUND, sample=(row,))),)))
    assert 'changed 2026-01-02 id "7: net 1": t a → "b, net 1 → 9", `note 1, net` x → y' in lines


def test_names_of_environments_cannot_format_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    compared = replace(COMPARED, before="in a\n**b**\u200b")
    print_markdown(compared, FLOW)
    text = capsys.readouterr().out
    assert "Before: in a\\\\x0a\\*\\*b\\*\\*\\\\u200b. After: in dev." in text.splitlines()[0]
    assert shown(compared)[-1].endswith(r"Before: in a\x0a**b**\u200b. After: in dev.")


def test_held_labels_of_the_other_environment_are_named() -> None:
    compared = replace(COMPARED, tables=(ComparedTable("marts.net", FOUND, held_before=(day(3), day(5))),))
    assert "a rule holds rows of 2026-01-03, 2026-01-05 in prod, which are not compared" in shown(compared)
    [found] = comparison_answer(compared).to_json()["tables"]
    assert (found["held"], found["held_before"]) == ([], ["20260103000000", "20260105000000"])


def test_values_cannot_link_from_the_markdown_or_mention_users(capsys: pytest.CaptureFixture[str]) -> None:
    old, new = "@ann see #12 %4 GH-3 :+1:", "https://a.example WWW.a.example mailto:a@b.example"
    found = replace(FOUND, sample=(DifferingRow("changed", LABEL, {"id": 1, "t": old}, {"id": 1, "t": new}),))
    print_markdown(replace(COMPARED, tables=(ComparedTable("marts.net", found),)), FLOW)
    assert (
        "\\@<!-- -->ann see \\#<!-- -->12 \\%4 GH<!-- -->-3 :<!-- -->+1: → https:<!-- -->//a.example "
        "WWW<!-- -->.a.example mailto:<!-- -->a\\@<!-- -->b.example |"
    ) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (1.5, 2.5, "1.5 → 2.5"),
        (None, "null", 'null → "null"'),
        ("", None, " → null"),
        ("abc", "abc ", '"abc" → "abc "'),
        ("caf\u00e9", "cafe\u0301", r'"caf\u00e9" → "cafe\u0301"'),
        ("a\u200bb", "ab", r'"a\u200bb" → "ab"'),
        ("a\n", "a\\x0a", r'"a\n" → "a\\x0a"'),
        (["caf\u00e9"], ["cafe\u0301"], r"['caf\xe9'] → ['cafe\u0301']"),
        (
            "caf\u00e9" + "x" * 70 + "a",
            "cafe\u0301" + "x" * 70 + "b",
            rf'"caf\u00e9{"x" * 49}… → "cafe\u0301{"x" * 48}…',
        ),
        ("p\u0430y", "pay", r'"p\u0430y" → "pay"'),
        ("a\u200b", r"a\u200b", r'"a\u200b" → "a\\u200b"'),
        ("1, net 5 → 9", "2", '"1, net 5 → 9" → 2'),
        ("x" * 70 + "a", "x" * 70 + "b", f"…{'x' * 20}a → …{'x' * 20}b"),
        ("x" * 70, "x" * 70 + "b", f"…{'x' * 20} → …{'x' * 20}b"),
        ("x" * 70 + "a", "y" * 70 + "b", f"{'x' * 59}… → {'y' * 59}…"),
        ("x" * 58 + "a" * 9, "x" * 58 + "b", f"…{'x' * 20}{'a' * 9} → …{'x' * 20}b"),
    ],
)
def test_both_values_of_a_change_are_visibly_different(before: object, after: object, expected: str) -> None:
    assert describe_change(before, after) == expected


def test_a_changed_row_shows_a_few_values() -> None:
    old, new = ({"id": 1, **{f"c{at}": value for at in range(10)}} for value in (1, 2))
    found = replace(FOUND, sample=(DifferingRow("changed", LABEL, old, new),))
    text = " ".join(shown(replace(COMPARED, tables=(ComparedTable("marts.net", found),))))
    assert "c7 1 → 2, …" in text
    assert "c8" not in text


def test_many_labels_are_counted() -> None:
    many = tuple(LabelDifference(day(1 + 2 * at), 1, 2, RowCounts(added=1)) for at in range(15)) * 3
    found = replace(FOUND, labels=many, sample=())
    assert f"{len(many) - MOST_LABELS} more lines; --json lists all" in shown(
        replace(COMPARED, tables=(ComparedTable("marts.net", found),))
    )


def test_the_answer_has_all_keys_of_its_model() -> None:
    answer = comparison_answer(COMPARED)
    told = json.loads(json.dumps({"version": answer.version, **answer.to_json()}))
    check_answer("diff", told)
    [net, sums] = told["tables"]
    assert net["columns"][0]["largest"] == {"label": LABEL, "key": {"id": 7}, "before": "1.10", "after": "2.20"}
    assert net["rows"][0]["after"] == {"id": 7, "net": "2.20", "f": "nan", "note": EVIL}
    assert net["labels"][0]["measures"] == [{"name": "total", "before": "1", "after": None}]
    assert (sums["error"]["code"], sums["single"], sums["differs"]) == ("E640", 3, False)
