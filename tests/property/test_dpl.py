"""The language under texts that nobody would write: splices keep what is not theirs, and nothing crashes."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.language.cases import CAPABILITIES, HERE, KNOWN, SETTINGS, cases_of
from waterclock.dpl.config.model import read_config
from waterclock.dpl.query.splice import SplicedQuery, splice
from waterclock.dpl.resolve.compile import compile_flow
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flat, Flow, Query, Read

CONFIG, _ = read_config(SETTINGS, env=None)
ACCEPTED = [path.read_text(encoding="utf-8") for path in sorted((HERE / "accepted").glob("*.dpl"))]
REFUSED = [text for case in cases_of("errors") for name, text in case.files.items() if name.endswith(".dpl")]

OF_DECLARATIONS = ("E1", "E2", "E3", "E830", "E832", "E922")  # E922: a DEADLINE BY WATERMARK without one


def compiled(text: str) -> tuple[Flow | None, list[WaterclockError]]:
    assert CONFIG is not None
    known, _ = parse_text(SourceText("flows/known.dpl", KNOWN), variables=CONFIG.variables)
    statements, errors = parse_text(SourceText("flows/case.dpl", text), variables=CONFIG.variables)
    flow = compile_flow([*known, *statements], CONFIG, root=Path("/p"), capabilities=CAPABILITIES, errors=errors)
    return flow, errors


SPACE = st.sampled_from([" ", "  ", "\n", "\t", " -- raw.orders, :x\n", " /* raw.clicks */ ", "\r\n", " /* é😀 */ "])
TABLE = st.sampled_from(
    [
        "raw.orders",
        "stg.open",
        "`raw`.orders",
        "raw . orders",
        "PAST(raw.orders, '7 days')",
        "PREVIOUS( raw.customers )",
        "latest(stg.open)",
        "(SELECT * FROM raw.orders)",
    ]
)
VALUE = st.sampled_from(
    [
        "NULL",
        "WINDOW_START()",
        "'raw.orders ;'",
        ":late_minutes",
        '"it\'s"',
        "timelabel( )",
        "upper('é😀')",
        "1",
        "`a``b`",
    ]
)
ALIAS = st.sampled_from(["", " AS `o{n}`", " o{n}"])


@st.composite
def queries(draw: st.DrawFn) -> str:
    def joined(*parts: str) -> str:
        return "".join(part + draw(SPACE) for part in parts)

    entries = [joined(draw(VALUE), "AS", f"c{n}") for n in range(draw(st.integers(1, 4)))]
    tables = [joined(draw(TABLE) + draw(ALIAS).format(n=n)) for n in range(draw(st.integers(1, 4)))]
    body = joined("SELECT", ", ".join(entries), "FROM", " CROSS JOIN ".join(tables))
    if draw(st.booleans()):
        body = joined("WITH", "x", "AS", f"({body})", "SELECT", "*", "FROM", "x")
    if draw(st.booleans()):
        body = joined(body, "UNION ALL", body)
    return body


def query_in(text: str) -> Query:
    flow, errors = compiled(f"TRANSFORM marts.x EVERY DAY AS {text}")
    assert errors == []
    assert flow is not None
    query = flow.tables["marts.x"].query
    assert query is not None
    return query


def spliced(query: Query) -> SplicedQuery:
    return splice(query, lambda read: f"<{read}>")


@given(queries())
def test_a_splice_leaves_every_other_character_where_it_was(text: str) -> None:
    query = query_in(text)
    result = spliced(query)
    own = [piece for piece in result.pieces if piece.is_copied and piece.source.text == query.text]
    ends = [piece.at for piece in result.pieces[1:]] + [len(result.text)]
    ends_of = dict(zip((piece.at for piece in result.pieces), ends, strict=True))
    kept = ""
    for piece in own:
        length = ends_of[piece.at] - piece.at
        assert result.text[piece.at : piece.at + length] == query.text[piece.origin : piece.origin + length]
        kept += query.text[piece.origin : piece.origin + length]
    spans = [(one.start, one.end) for one in query.tables] + [(one.start, one.end) for one in query.values]
    taken = {at for start, end in spans for at in range(start, end)}
    assert kept == "".join(sign for at, sign in enumerate(query.text) if at not in taken)


@given(queries())
def test_each_character_of_the_user_leads_back_to_its_own_place(text: str) -> None:
    query = query_in(text)
    result = spliced(query)
    line = column = 1
    pieces = list(result.pieces)
    for offset, sign in enumerate(result.text):
        while len(pieces) > 1 and pieces[1].at <= offset:
            pieces.pop(0)
        piece = pieces[0]
        place = result.place_of(line, column)
        if piece.is_copied:
            assert place == piece.source.place(piece.origin + offset - piece.at)
            assert piece.source.text[piece.source.offset(place)] == sign
        line, column = (line + 1, 1) if sign == "\n" else (line, column + (2 if sign > "\uffff" else 1))


@given(queries())
def test_the_reads_replaced_by_splice_are_those_of_the_compiled_table(text: str) -> None:
    query = query_in(text)
    seen: list[Read | Flat] = []

    def name_of(read: Read | Flat) -> str:
        seen.append(read)
        return "x"

    splice(query, name_of)
    flow, _ = compiled(f"TRANSFORM marts.x EVERY DAY AS {text}")
    assert flow is not None
    assert set(seen) == set(flow.tables["marts.x"].reads)


SIGNS = "; ' \" ` /* */ -- ( ) , . : {{ \x00 é 😀 $ ? 7D 15m X' r' \\ |> [ } @ !"
WORDS = "AS SELECT EVERY ELSE MERGE CASE WITH INTO ON"
PIECES = st.sampled_from([*SIGNS.split(" "), *WORDS.split(" ")])


@st.composite
def mutations(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(REFUSED)) if draw(st.booleans()) else draw(st.sampled_from(ACCEPTED))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        to = min(len(text), at + draw(st.integers(0, 12)))
        text = text[:at] + draw(st.one_of(PIECES, st.just(""), st.text(max_size=3))) + text[to:]
    return text


@given(mutations())
def test_no_text_makes_the_compiler_crash_or_hang(text: str) -> None:
    flow, errors = compiled(text)
    assert (flow is None) == bool(errors)
    assert all(error.where and error.code.startswith(OF_DECLARATIONS) for error in errors)
    assert all(error.excerpt and "^" in error.excerpt for error in errors)


@given(st.text(max_size=60))
def test_no_project_file_makes_the_reader_crash(text: str) -> None:
    config, errors = read_config(text, env=None)
    assert (config is None) or not any(error.code == "E240" for error in errors)
    assert config is not None or errors


def test_every_refusal_of_the_fixtures_has_a_code_of_declarations() -> None:
    codes = {error.code for text in REFUSED for error in compiled(text)[1]}
    assert sorted(code for code in codes if not code.startswith(OF_DECLARATIONS)) == []
