"""Renders the results of specifications as one self-contained HTML page without scripts.

It shows results by words and signs as well as colors, and can be printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from itertools import groupby

from waterclock.specs.comparing import CheckedRow, Comparison, RowMark
from waterclock.specs.document import ExampleTable, Feature, Scenario, SpecRule, SpecStep
from waterclock.specs.outcome import DeclaredRule, ScenarioOutcome, ScenarioVerdict, SpecOutcome, StepOutcome
from waterclock.specs.values import NULL, text_of

_GLYPHS = {ScenarioVerdict.PASSED: "✓", ScenarioVerdict.FAILED: "✕", ScenarioVerdict.SKIPPED: "–"}
_CLASSES = {ScenarioVerdict.PASSED: "ok", ScenarioVerdict.FAILED: "fail", ScenarioVerdict.SKIPPED: "skipped"}
_MARKS = {
    RowMark.SAME: "",
    RowMark.CHANGED: "≠ changed",
    RowMark.MISSING: "− missing",
    RowMark.UNEXPECTED: "+ unexpected",
}
_CODE = re.compile(r"`([^`]+)`")
_NUMBER = re.compile(r"-?\d[\d_]*(\.\d+)?(e[+-]?\d+)?")


def page_of(outcome: SpecOutcome, *, made: datetime | None = None) -> str:
    """Return the HTML page of rules, examples and results. `made` is the time that it shows, by default now."""
    at = made or datetime.now(UTC)
    style = files("waterclock.specs").joinpath("page.css").read_text(encoding="utf-8")
    title = f"{outcome.project}: specification"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<div class=page>\n"
        f"{_render_header(outcome, title, at)}\n{_render_contents(outcome)}\n"
        f"<main>\n{_render_features(outcome)}\n{_render_code(outcome.code)}</main>\n"
        "</div>\n</body>\n</html>\n"
    )


def render_frame(outcome: SpecOutcome) -> str:
    """Return the page in an iframe for a notebook's cell, so that the styles of page and notebook do not mix."""
    height = min(900, 260 + 220 * len(outcome.scenarios))
    page = escape(outcome.html(), quote=True)
    return f'<iframe title="Specification" srcdoc="{page}" style="width:100%;height:{height}px;border:0"></iframe>'


def _render_header(outcome: SpecOutcome, title: str, at: datetime) -> str:
    failed = len(outcome.failed)
    counts = [f"{len(outcome.scenarios)} examples", f'<span class="verdict ok">✓ {len(outcome.passed)} passed</span>']
    counts.append(f'<span class="verdict {"fail" if failed else "quiet"}">✕ {failed} failed</span>')
    if outcome.left_out:
        counts.append(f"{outcome.left_out} not run")
    return (
        f"<header>\n<h1>{escape(title)}</h1>\n<p>{', '.join(counts)}</p>\n"
        f'<p class="quiet">Each example was run by the engine on tables of its own, on {at:%Y-%m-%d at %H:%M} UTC, '
        f"in the environment {escape(outcome.env)}. Times in tables are UTC.</p>\n</header>"
    )


def _render_contents(outcome: SpecOutcome) -> str:
    items = []
    for number, (feature, found) in enumerate(outcome.outcomes_by_feature(), 1):
        rules = [
            f'<li><a href="#f{number}r{at}">{escape(rule.name)}</a> {_render_counts(_rule_outcomes(rule, found))}</li>'
            for at, rule in enumerate(feature.rules, 1)
            if rule.name and _rule_outcomes(rule, found)
        ]
        inner = f"<ul>{''.join(rules)}</ul>" if rules else ""
        items.append(f'<li><a href="#f{number}">{escape(feature.name)}</a> {_render_counts(found)}{inner}</li>')
    code = '<li><a href="#code">The code</a></li>' if outcome.code else ""
    return f'<nav aria-labelledby="contents">\n<h2 id="contents">Contents</h2>\n<ol>{"".join(items)}{code}</ol>\n</nav>'


def _render_counts(found: Sequence[ScenarioOutcome]) -> str:
    failed = sum(each.verdict is ScenarioVerdict.FAILED for each in found)
    if failed:
        return f'<span class="verdict fail">✕ {failed} of {len(found)} failed</span>'
    return f'<span class="verdict ok">✓ {len(found)} passed</span>'


def _rule_outcomes(rule: SpecRule, found: Iterable[ScenarioOutcome]) -> tuple[ScenarioOutcome, ...]:
    ids = set(map(id, rule.scenarios))
    return tuple(each for each in found if id(each.scenario) in ids)


def _render_features(outcome: SpecOutcome) -> str:
    return "\n".join(_render_feature(number, *each) for number, each in enumerate(outcome.outcomes_by_feature(), 1))


def _render_feature(number: int, feature: Feature, found: tuple[ScenarioOutcome, ...]) -> str:
    parts = [
        f'<section aria-labelledby="f{number}">\n<h2 id="f{number}">{escape(feature.name)}</h2>',
        _render_tags(feature.tags),
        _render_paragraphs(feature.description),
        f'<p class="quiet">{escape(feature.file)}</p>',
    ]
    common = _background_steps(feature.rules[0].scenarios[0])
    for rule in feature.rules[1:]:
        common = tuple(step for step in common if step in _background_steps(rule.scenarios[0]))
    parts.append(_render_background(common))
    for at, rule in enumerate(feature.rules, 1):
        of_rule = _rule_outcomes(rule, found)
        if not of_rule:
            continue
        if rule.name:
            parts.append(f'<h3 id="f{number}r{at}">Rule: {escape(rule.name)}</h3>')
        parts.append(_render_paragraphs(rule.description))
        parts.append(
            _render_background(tuple(step for step in _background_steps(rule.scenarios[0]) if step not in common))
        )
        level = 4 if rule.name else 3
        for _, alike in groupby(of_rule, lambda each: each.scenario.template or id(each)):
            parts.append(_render_examples(tuple(alike), feature.tags, level))
    return "\n".join(filter(None, parts)) + "\n</section>"


def _background_steps(scenario: Scenario) -> tuple[SpecStep, ...]:
    return tuple(step for step in scenario.steps if step.is_background)


def _render_background(steps: tuple[SpecStep, ...]) -> str:
    shown = "".join(_render_step(StepOutcome(step, ScenarioVerdict.PASSED)) for step in steps)
    return f'<div class="before"><p class="quiet">Before each example</p>\n{shown}</div>' if steps else ""


def _render_examples(found: tuple[ScenarioOutcome, ...], known_tags: tuple[str, ...], level: int) -> str:
    """Render a scenario. An outline is shown once, with a line for each of its examples, and failures below."""
    if len(found) == 1:
        return _render_scenario(found[0], known_tags, level)
    first, is_failed = found[0].scenario, any(each.failed for each in found)
    tags = tuple(tag for tag in first.tags if tag not in known_tags)
    steps = "".join(_render_step(StepOutcome(step, ScenarioVerdict.PASSED)) for step in first.template)
    head = "".join(f'<th class="of" scope="col">{escape(name)}</th>' for name, _ in first.example)
    body = "".join(
        f'<tr><th class="mark {_CLASSES[each.verdict]}" scope="row">{_GLYPHS[each.verdict]} {each.verdict}</th>'
        f"{''.join(_render_cell(value) for _, value in each.scenario.example)}</tr>\n"
        for each in found
    )
    wrong = "".join(
        f'<p class="fail">✕ {escape(each.scenario.title)}</p>\n{_render_step(each.failed)}'
        for each in found
        if each.failed
    )
    return (
        f'<article class="{ScenarioVerdict.FAILED if is_failed else ScenarioVerdict.PASSED}">\n'
        f'<h{level} class="example">{_render_counts(found)} {escape(first.outline)}</h{level}>\n'
        f"{_render_tags(tags)}{_render_paragraphs(first.description)}{steps}"
        f'<p class="step"><span class="word">Examples</span></p>\n'
        f'<div class="rows"><table><thead><tr><td></td>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'
        f"{wrong}{_render_code_links(found[0])}</article>"
    )


def _render_code_links(outcome: ScenarioOutcome) -> str:
    links = ", ".join(f'<a href="#code-{escape(name)}"><code>{escape(name)}</code></a>' for name in outcome.code)
    return f'<p class="runs">Runs {links} · {escape(str(outcome.scenario.place))}</p>\n'


def _render_scenario(outcome: ScenarioOutcome, known_tags: tuple[str, ...], level: int) -> str:
    scenario, verdict = outcome.scenario, outcome.verdict
    tags = tuple(tag for tag in scenario.tags if tag not in known_tags)
    steps = [
        _render_step(each)
        for each in outcome.steps
        if not each.step.is_background or each.verdict is ScenarioVerdict.FAILED
    ]
    return (
        f'<article class="{verdict}">\n'
        f'<h{level} class="example"><span class="verdict {_CLASSES[verdict]}">{_GLYPHS[verdict]} {verdict}</span> '
        f"{escape(scenario.title)}</h{level}>\n{_render_tags(tags)}{_render_paragraphs(scenario.description)}{''.join(steps)}"
        f"{_render_code_links(outcome)}</article>"
    )


def _render_step(outcome: StepOutcome) -> str:
    step, verdict = outcome.step, outcome.verdict
    note = (
        ""
        if verdict is ScenarioVerdict.PASSED
        else f' <span class="verdict {_CLASSES[verdict]}">{_GLYPHS[verdict]} {verdict}</span>'
    )
    line = f'<p class="step"><span class="word">{escape(step.keyword)}</span> {escape(step.text)}{note}</p>\n'
    if verdict is ScenarioVerdict.FAILED and outcome.comparison is not None:
        differs = f'<p class="differs fail">{escape(outcome.comparison.summary())}</p>\n'
        return line + differs + _render_comparison(outcome.comparison)
    table = _render_rows(step.grid) if step.grid is not None else ""
    error = f'<pre class="error">{escape(outcome.message())}</pre>\n' if verdict is ScenarioVerdict.FAILED else ""
    return line + table + error


def _render_rows(grid: ExampleTable) -> str:
    head = "".join(f'<th class="of" scope="col">{escape(cell.text)}</th>' for cell in grid.header)
    body = "".join(f"<tr>{''.join(_render_cell(cell.text) for cell in row)}</tr>\n" for row in grid.rows)
    return f'<div class="rows"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'


def _render_cell(text: str) -> str:
    if text in {"", NULL}:
        return f'<td class="null">{NULL}</td>'
    return f'<td class="number">{text}</td>' if _NUMBER.fullmatch(text) else f"<td>{escape(text)}</td>"


def _render_comparison(comparison: Comparison) -> str:
    head = "<td></td>" + "".join(f'<th class="of" scope="col">{escape(name)}</th>' for name in comparison.columns)
    body = "".join(_render_compared_row(line) for line in comparison.lines)
    return f'<div class="rows"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'


def _render_compared_row(line: CheckedRow) -> str:
    sign = f'<th class="mark" scope="row">{_MARKS[line.mark] or "✓"}</th>'
    if line.expected is None or line.got is None:
        cells = "".join(_render_cell(text_of(value)) for value in line.expected or line.got or ())
        return f'<tr class="{line.mark}">{sign}{cells}</tr>\n'
    cells = "".join(
        f'<td class="wrong"><del>expected {escape(text_of(expected))}</del>, <ins>got {escape(text_of(got))}</ins></td>'
        if at in line.wrong
        else _render_cell(text_of(expected))
        for at, (expected, got) in enumerate(zip(line.expected, line.got, strict=True))
    )
    return f'<tr class="{line.mark}">{sign}{cells}</tr>\n'


def _render_code(code: tuple[DeclaredRule, ...]) -> str:
    if not code:
        return ""
    parts = [
        f'<h3 id="code-{escape(each.table)}"><code>{escape(each.table)}</code></h3>\n'
        f'<p class="quiet">{escape(each.place)}</p>\n<pre><code>{escape(each.text)}</code></pre>'
        for each in code
    ]
    intro = "<p>The declarations that the examples ran, as they are in the project.</p>"
    inner = "\n".join(parts)
    return f'<section aria-labelledby="code">\n<h2 id="code">The code</h2>\n{intro}\n{inner}\n</section>\n'


def _render_tags(tags: tuple[str, ...]) -> str:
    shown = " ".join(f'<span class="tag">{escape(tag)}</span>' for tag in tags)
    return f"<p>{shown}</p>\n" if shown else ""


def _render_paragraphs(text: str) -> str:
    parts = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip())
    return "".join("<p>" + _CODE.sub(r"<code>\1</code>", escape(part)) + "</p>\n" for part in parts)
