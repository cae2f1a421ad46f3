from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import pytest

from tests.specifying import feature
from waterclock.errors import WaterclockError
from waterclock.specs.comparing import compare
from waterclock.specs.outcome import DeclaredRule, ScenarioOutcome, ScenarioVerdict, SpecOutcome, StepOutcome
from waterclock.specs.page import page_of, render_frame

TEXT = """
@demo
Feature: Sales & more
  What is <sold>, by `marts.sales`.

  Background:
    Given the table raw.customers
      | customer | country |
      | 1        |         |

  Scenario: above all rules
    When marts.sales runs
    Then marts.sales is empty

  Rule: only what is paid counts

    @slow
    Scenario: one is unpaid
      When marts.sales runs
      Then marts.sales is
        | country | orders |
        | FR      | 3      |
      And marts.sales is empty

    Scenario: it breaks
      When marts.sales runs
      Then marts.sales is empty
"""
OUTLINE = """
Feature: f
  Scenario Outline: <n> of them
    When marts.sales runs
    Then marts.sales contains
      | orders |
      | <n>    |

    Examples:
      | n | why  |
      | 1 | paid |
      | 2 |      |
"""
MADE = datetime(2020, 1, 2, 3, 4, tzinfo=UTC)
_VOID = {"meta", "br"}


class Outline(HTMLParser):
    """Parses a page: unclosed tags, ids, links, headings, and external addresses."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.levels: list[int] = []
        self.tags: set[str] = set()
        self.outside: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        self.tags.add(tag)
        self.ids += [said["id"] or ""] if "id" in said else []
        self.links += [said["href"] or ""] if "href" in said else []
        self.levels += [int(tag[1])] if re.fullmatch(r"h\d", tag) else []
        self.outside += [value for value in said.values() if value and "//" in value]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def outcome() -> SpecOutcome:
    found = feature(TEXT)
    first, second, third = found.scenarios
    differs = compare(("country", "orders"), [("FR", 3), ("DE", 1)], [("FR", 2), ("<b>", 5)], keys=("country",))
    passed = ScenarioVerdict.PASSED
    error = WaterclockError("E740", "not as expected: <rule>", where="marts.sales@20200101000000")
    return SpecOutcome(
        project="shop",
        env="dev",
        features=(found,),
        scenarios=(
            ScenarioOutcome(first, tuple(StepOutcome(step, passed) for step in first.steps), 1.0, ("marts.sales",)),
            ScenarioOutcome(
                second,
                (
                    *(StepOutcome(step, passed) for step in second.steps[:2]),
                    StepOutcome(second.steps[2], ScenarioVerdict.FAILED, differs),
                    StepOutcome(second.steps[3], ScenarioVerdict.SKIPPED),
                ),
                code=("marts.sales",),
            ),
            ScenarioOutcome(third, (StepOutcome(third.steps[1], ScenarioVerdict.FAILED, error=error),)),
        ),
        code=(DeclaredRule("marts.sales", "flows/a.dpl:3:1", "TRANSFORM marts.sales AS SELECT 1 < 2;"),),
    )


def test_the_page_is_well_formed_and_needs_no_other_files(outcome: SpecOutcome) -> None:
    page = page_of(outcome, made=MADE)
    outline = Outline(page)

    assert outline.open == []
    assert outline.outside == []
    assert not outline.tags & {"script", "link", "img", "iframe"}
    assert "@import" not in page
    assert "url(" not in page
    assert len(set(outline.ids)) == len(outline.ids)
    assert {link.removeprefix("#") for link in outline.links} <= set(outline.ids)


def test_headings_go_down_one_level_at_a_time(outcome: SpecOutcome) -> None:
    levels = Outline(page_of(outcome, made=MADE)).levels

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_page_counts_the_verdicts_and_shows_each_as_a_word_and_a_sign(outcome: SpecOutcome) -> None:
    page = page_of(outcome, made=MADE)

    assert "3 examples" in page
    assert "✓ 1 passed" in page
    assert "✕ 2 failed" in page
    assert "on 2020-01-02 at 03:04 UTC" in page
    assert '<a href="#f1r2">only what is paid counts</a> <span class="verdict fail">✕ 2 of 2 failed</span>' in page
    assert page.count('<article class="failed">') == 2
    assert "– skipped" in page


def test_rows_that_differ_are_shown_cell_by_cell(outcome: SpecOutcome) -> None:
    page = page_of(outcome, made=MADE)

    assert "rows differ: 1 changed, 1 missing, 1 unexpected" in page
    assert "<del>expected 3</del>, <ins>got 2</ins>" in page
    assert '<tr class="missing"><th class="mark" scope="row">− missing</th><td>DE</td>' in page
    assert '<tr class="unexpected"><th class="mark" scope="row">+ unexpected</th><td>&lt;b&gt;</td>' in page


def test_text_of_users_is_escaped(outcome: SpecOutcome) -> None:
    page = page_of(outcome, made=MADE)

    assert "Sales &amp; more" in page
    assert "What is &lt;sold&gt;, by <code>marts.sales</code>." in page
    assert "E740 not as expected: &lt;rule&gt;" in page
    assert "SELECT 1 &lt; 2;" in page


def test_a_background_is_shown_once_and_an_empty_cell_is_null(outcome: SpecOutcome) -> None:
    page = page_of(outcome, made=MADE)

    assert page.count("Before each example") == 1
    assert page.index("Before each example") < page.index("above all rules</h3>")
    assert page.count("the table raw.customers") == 1
    assert '<td class="null">NULL</td>' in page


def test_an_outline_is_shown_once_with_a_row_for_each_example_and_the_failures_below() -> None:
    found = feature(OUTLINE)
    one, two = found.scenarios
    differs = compare(("orders",), [(2,)], [])
    passed = tuple(StepOutcome(step, ScenarioVerdict.PASSED) for step in one.steps)
    failed = (
        StepOutcome(two.steps[0], ScenarioVerdict.PASSED),
        StepOutcome(two.steps[1], ScenarioVerdict.FAILED, differs),
    )
    page = page_of(
        SpecOutcome("shop", "dev", (found,), (ScenarioOutcome(one, passed), ScenarioOutcome(two, failed))), made=MADE
    )

    assert Outline(page).open == []
    assert page.count("<article") == 1
    assert page.count("marts.sales runs") == 1
    assert "✕ 1 of 2 failed</span> &lt;n&gt; of them</h3>" in page
    assert "<td>&lt;n&gt;</td>" in page
    assert '✓ passed</th><td class="number">1</td><td>paid</td></tr>' in page
    assert '✕ failed</th><td class="number">2</td><td class="null">NULL</td></tr>' in page
    assert '<p class="fail">✕ 2 of them</p>' in page
    assert page.count("rows differ: 1 missing") == 1


def test_tags_of_the_feature_are_not_repeated(outcome: SpecOutcome) -> None:
    page = page_of(outcome, made=MADE)

    assert page.count("@demo") == 1
    assert page.count("@slow") == 1


def test_in_a_notebook_the_page_is_a_frame_of_its_own(outcome: SpecOutcome) -> None:
    frame = render_frame(outcome)

    assert frame.startswith('<iframe title="Specification" srcdoc="&lt;!doctype html&gt;')
    assert frame.count('"') == 6
    assert outcome._repr_html_() == render_frame(outcome)


def colours() -> list[dict[str, str]]:
    """Return the colours of light, dark and printed pages, by their meaning."""
    text = files("waterclock.specs").joinpath("page.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", block)) for block in blocks]


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(sign * 2 for sign in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("ground", ["ground", "raised"])
@pytest.mark.parametrize("ink", ["text", "quiet", "link", "ok", "fail", "warn"])
def test_every_ink_is_read_on_every_ground(ink: str, ground: str) -> None:
    for palette in colours():
        light, dark = sorted((luminance(palette[ink]), luminance(palette[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, palette


@pytest.mark.parametrize(("ink", "ground"), [("text", "fail-ground"), ("fail", "fail-ground"), ("text", "more-ground")])
def test_marked_cells_are_read(ink: str, ground: str) -> None:
    assert len(colours()) == 3
    for palette in colours():
        light, dark = sorted((luminance(palette[ink]), luminance(palette[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, palette
