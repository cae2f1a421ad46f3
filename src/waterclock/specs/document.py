"""A specification as data: features, rules and scenarios, with the place of every word and cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from waterclock.flow.declarations import Place


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table below a step, without surrounding blanks."""

    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class ExampleTable:
    """A table below a step. Its first line names the columns."""

    header: tuple[TableCell, ...]
    rows: tuple[tuple[TableCell, ...], ...]


@dataclass(frozen=True, slots=True)
class SpecStep:
    """A step of a scenario. `is_background`: whether it runs before every scenario of its feature or rule."""

    keyword: str
    text: str
    place: Place
    grid: ExampleTable | None = None
    has_text: bool = False
    is_background: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """One example with all its steps, the background's first.

    For an outline, a scenario is one line of its examples. `outline` and `template` are the outline's name and its own
    steps as written, with column names in <angle brackets>.
    """

    feature: str
    rule: str
    name: str
    place: Place
    tags: tuple[str, ...]
    steps: tuple[SpecStep, ...]
    description: str = ""
    outline: str = ""
    example: tuple[tuple[str, str], ...] = ()
    template: tuple[SpecStep, ...] = ()

    @property
    def title(self) -> str:
        """The name of the scenario. The examples of an outline with a common name are followed by their values."""
        if not self.example or self.name != self.outline:
            return self.name
        return f"{self.name} ({', '.join(f'{name} {value}' for name, value in self.example)})"

    def __str__(self) -> str:
        return " / ".join(filter(None, (self.feature, self.rule, self.title)))


@dataclass(frozen=True, slots=True)
class SpecRule:
    """A business rule and its scenarios. Scenarios outside any rule belong to one without a name."""

    name: str
    description: str
    scenarios: tuple[Scenario, ...]


@dataclass(frozen=True, slots=True)
class Feature:
    """The content of one feature file: its name, description, tags and rules."""

    file: str
    name: str
    description: str
    tags: tuple[str, ...]
    rules: tuple[SpecRule, ...]

    @property
    def scenarios(self) -> Iterator[Scenario]:
        """All scenarios of all rules, in the order of the file."""
        return (scenario for rule in self.rules for scenario in rule.scenarios)
