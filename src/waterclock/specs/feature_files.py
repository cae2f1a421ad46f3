"""Parses a Gherkin file with Cucumber's parser, whose compiler expands outlines and puts background steps first.

The places in an expanded scenario are those of its outline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Place
from waterclock.specs.document import ExampleTable, Feature, Scenario, SpecRule, SpecStep, TableCell
from waterclock.specs.syntax_errors import empty, gherkin_error, suggest_keyword


def read_feature(text: str, file: str) -> tuple[Feature | None, tuple[WaterclockError, ...]]:
    """Parse one file. Return the feature, and E350 for each place with invalid Gherkin or without content."""
    from gherkin.errors import CompositeParserException, ParserException
    from gherkin.parser import Parser
    from gherkin.pickles.compiler import Compiler

    try:
        document: Any = Parser().parse(text)
    except CompositeParserException as several:
        return None, tuple(gherkin_error(one, text, file) for one in several.errors)
    except ParserException as error:
        return None, (gherkin_error(error, text, file),)
    if not document.get("feature"):
        return None, (empty(file, "there is no Feature in this file"),)
    parsed = _ParsedFeature.of(document["feature"], file)
    document["uri"] = file
    feature = parsed.build_feature(Compiler().compile(document))
    if not parsed.scenarios:
        return None, (empty(file, "there is no Scenario in this file"),)
    return feature, tuple(parsed.find_errors(feature))


@dataclass(slots=True)
class _ParsedFeature:
    """A parsed feature. It maps the ids in compiled scenarios to the nodes of the file, with keywords and places."""

    node: Mapping[str, Any]
    file: str
    steps: dict[str, tuple[Mapping[str, Any], bool]] = field(default_factory=dict)
    scenarios: dict[str, tuple[int, Mapping[str, Any]]] = field(default_factory=dict)
    examples: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=dict)
    rules: list[Mapping[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, node: Mapping[str, Any], file: str) -> _ParsedFeature:
        parsed = cls(node, file)
        parsed.rules.append({"name": "", "description": ""})
        for child in node["children"]:
            if "rule" in child:
                parsed.rules.append(child["rule"])
                for inner in child["rule"]["children"]:
                    parsed._register(inner, len(parsed.rules) - 1)
            else:
                parsed._register(child, 0)
        return parsed

    def _register(self, child: Mapping[str, Any], rule: int) -> None:
        is_background = "background" in child
        node = child["background"] if is_background else child["scenario"]
        for step in node["steps"]:
            self.steps[step["id"]] = (step, is_background)
        if is_background:
            return
        self.scenarios[node["id"]] = (rule, node)
        for examples in node["examples"]:
            for row in examples["tableBody"]:
                self.examples[row["id"]] = (examples["tableHeader"], row)

    def build_feature(self, pickles: Any) -> Feature:
        by_rule: list[list[Scenario]] = [[] for _ in self.rules]
        for pickle in pickles:
            if pickle["steps"]:
                rule, scenario = self._build_scenario(pickle)
                by_rule[rule].append(scenario)
        rules = tuple(
            SpecRule(node["name"], _strip_indent(node["description"]), tuple(scenarios))
            for node, scenarios in zip(self.rules, by_rule, strict=True)
            if scenarios
        )
        node = self.node
        tags = tuple(tag["name"] for tag in node["tags"])
        return Feature(self.file, node["name"], _strip_indent(node["description"]), tags, rules)

    def find_errors(self, feature: Feature) -> Iterator[WaterclockError]:
        """Yield an error for each scenario without steps or without examples, and for each mistyped step keyword."""
        from gherkin.dialect import Dialect

        dialect = Dialect.for_name(self.node["language"])
        outlines = dialect.scenario_outline_keywords if dialect is not None else []
        there = {scenario.place.line for scenario in feature.scenarios}
        for _, node in self.scenarios.values():
            rows = {row["location"]["line"] for examples in node["examples"] for row in examples["tableBody"]}
            lines = [line.strip() for line in node["description"].splitlines()]
            if not node["steps"]:
                yield self._empty_scenario_error(
                    node, "no step", suggest_keyword(lines) or "a scenario has steps Given, When, Then"
                )
            elif not there & rows and (node["examples"] or node["keyword"] in outlines):
                yield self._empty_scenario_error(
                    node, "no examples", "write Examples: and a table below it, its names in <these>"
                )
            elif fix := suggest_keyword(lines):
                yield self._empty_scenario_error(node, "a line above its steps that resembles a step", fix)

    def _empty_scenario_error(self, node: Mapping[str, Any], what: str, fix: str) -> WaterclockError:
        return WaterclockError(
            "E350",
            f"this scenario has {what}",
            where=str(self._to_place(node["location"])),
            why=f"it is {node['name']!r}; text above the first step is a description and is not run",
            fix=fix,
        )

    def _build_scenario(self, pickle: Mapping[str, Any]) -> tuple[int, Scenario]:
        rule, node = self.scenarios[pickle["astNodeIds"][0]]
        example: tuple[tuple[str, str], ...] = ()
        for row_id in pickle["astNodeIds"][1:]:
            header, row = self.examples[row_id]
            pairs = zip(header["cells"], row["cells"], strict=True)
            example = tuple((name["value"], value["value"]) for name, value in pairs)
        return rule, Scenario(
            feature=self.node["name"],
            rule=self.rules[rule]["name"],
            name=pickle["name"],
            place=self._to_place(pickle["location"]),
            tags=tuple(tag["name"] for tag in pickle["tags"]),
            steps=tuple(self._build_step(step) for step in pickle["steps"]),
            description=_strip_indent(node["description"]),
            outline=node["name"],
            example=example,
            template=tuple(map(self._template_step, node["steps"])) if example else (),
        )

    def _build_step(self, step: Mapping[str, Any]) -> SpecStep:
        node, is_background = self.steps[step["astNodeIds"][0]]
        argument = step.get("argument") or {}
        grid = self._build_table(node, argument["dataTable"]) if "dataTable" in argument else None
        return SpecStep(
            node["keyword"].strip(),
            step["text"],
            self._to_place(node["location"]),
            grid,
            "docString" in argument,
            is_background,
        )

    def _template_step(self, node: Mapping[str, Any]) -> SpecStep:
        grid = self._build_table(node, node["dataTable"]) if "dataTable" in node else None
        return SpecStep(node["keyword"].strip(), node["text"], self._to_place(node["location"]), grid)

    def _build_table(self, node: Mapping[str, Any], table: Mapping[str, Any]) -> ExampleTable:
        lines = [
            tuple(
                TableCell(cell["value"], self._to_place(written["location"]))
                for cell, written in zip(row["cells"], origin["cells"], strict=True)
            )
            for row, origin in zip(table["rows"], node["dataTable"]["rows"], strict=True)
        ]
        return ExampleTable(lines[0], tuple(lines[1:]))

    def _to_place(self, location: Mapping[str, Any]) -> Place:
        return Place(self.file, location["line"], location.get("column") or 1)


def _strip_indent(description: str) -> str:
    """Return a description without the indent of its lines."""
    return "\n".join(line.strip() for line in description.strip().splitlines())
