"""Translates DPL statements into Python calls, clause by clause, to prove that both forms are equivalent."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence

from waterclock.dpl.syntax.statements import Clause, ParsedFunction, ParsedOptions, ParsedWhen, Statement, StatementKind
from waterclock.flow.declarations import Secret

FUNCTIONS = {
    StatementKind.CONNECTION: "connection",
    StatementKind.FUNCTION: "function",
    StatementKind.VIEW: "view",
    StatementKind.COLLECT: "collect",
    StatementKind.TRANSFORM: "transform",
    StatementKind.PUBLISH: "publish",
    StatementKind.GRANT: "grant",
}
HEAD = "from __future__ import annotations\n\nimport waterclock as wc\n\n"
Spell = Callable[[str], str]


def python_of(
    statements: Sequence[Statement],
    *,
    spell: Spell = repr,
    order: Callable[[list[str]], list[str]] = lambda names: names,
) -> str:
    """Return a whole file. `spell` writes a text as Python, `order` orders a call's arguments."""
    return HEAD + "".join(call_of(statement, spell, order) for statement in statements)


def call_of(statement: Statement, spell: Spell, order: Callable[[list[str]], list[str]]) -> str:
    arguments = {name: written(value, spell) for name, value in arguments_of(statement).items()}
    lines = "".join(f"    {name}={arguments[name]},\n" for name in order([*arguments]))
    return f"wc.{FUNCTIONS[statement.kind]}(\n    {spell(statement.span.text)},\n{lines})\n"


def arguments_of(statement: Statement) -> dict[str, object]:
    """Return the arguments of a statement's call: each clause's own words, and its own text."""
    arguments: dict[str, object] = {}
    for clause in statement.clauses:
        if isinstance(clause.value, ParsedWhen):
            pair = [clause.value.condition.span.text, clause.value.query.span.text]
            arguments["when"] = [*arguments.get("when", []), pair]  # type: ignore[misc]  # a list, made here
            continue
        name, value = argument_of(clause)
        if name in {"expect", "measure"}:
            value = [*arguments.get(name, []), value]  # type: ignore[misc]  # a list, made here
        if isinstance(value, dict) and name == "return_":
            arguments |= value
        else:
            arguments[name] = value
    return arguments


def argument_of(clause: Clause) -> tuple[str, object]:
    if clause.word == "TYPE OF TABLE":
        return clause.value.value, True
    if clause.word in {"SEQUENTIAL", "SHARED"} or (clause.word == "CONTINUOUS" and not own_text(clause)):
        return clause.word.lower(), True
    if isinstance(clause.value, ParsedFunction):
        return "return_", function_arguments(clause.value)
    if isinstance(clause.value, ParsedOptions):
        return "options", dict(clause.value.values)
    name = clause.word.lower().replace(" ", "_")
    return (f"{name}_" if keyword.iskeyword(name) else name), own_text(clause)


def own_text(clause: Clause) -> str:
    """Return the text after a clause's word; a mode is its own word, and columns lose their brackets."""
    text = clause.span.text
    if clause.word in {"MODE", "AS"}:
        return text
    if clause.word == "COLUMNS":
        return text[1:-1]
    assert text.upper().startswith(clause.word)
    return text[len(clause.word) :].strip()


def function_arguments(said: ParsedFunction) -> dict[str, object]:
    assert said.body is not None
    parameters = ", ".join(f"{name} {kind}" for name, kind in said.parameters)
    return {"parameters": parameters, "returns": said.returns, "return_": said.body.span.text}


def written(value: object, spell: Spell) -> str:
    if isinstance(value, str):
        return spell(value)
    if isinstance(value, Secret):
        return f"wc.secret({spell(value.name)})"
    if isinstance(value, list):
        return f"[{', '.join(written(one, spell) for one in value)}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{spell(name)}: {written(one, spell)}" for name, one in value.items()) + "}"
    return repr(value)
