"""Defines the functions that Waterclock adds to Spark's in queries and expressions, and checks calls to them.

Each function is an expression of Spark SQL, which the engine creates in Spark sessions. To add a function, add an entry
to `_ALL`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sqlglot.tokens import Token, TokenType

from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.tokens import dialect
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Function, Place
from waterclock.masking.generalizing import PARAMETERS as OF_GENERALIZE
from waterclock.masking.generalizing import PERIODS, RULES, generalize_sql
from waterclock.masking.keyed_sql import (
    DECRYPT_PARAMETERS,
    ENCRYPT_PARAMETERS,
    HASH_PARAMETERS,
    PERTURB_PARAMETERS,
    decrypt_sql,
    encrypt_sql,
    hash_sql,
    perturb_sql,
)
from waterclock.masking.mask_text import PARAMETERS as OF_MASKS
from waterclock.masking.mask_text import mask_sql
from waterclock.masking.row_keys import PARAMETERS as OF_KEYS
from waterclock.masking.row_keys import key_sql
from waterclock.masking.token_sql import DETOKENIZE, DETOKENIZE_PARAMETERS, detokenize_sql
from waterclock.similar_names import did_you_mean
from waterclock.temporal.text_formats import FORMATS, PARAMETERS, format_sql

STRINGS = frozenset({TokenType.STRING, TokenType.RAW_STRING})
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})


@dataclass(frozen=True, slots=True)
class BuiltinFunction:
    """A built-in function of Waterclock. `needs`: the number of required arguments.

    `choices`: the legal values of parameters that accept only certain words. `one_of`: the parameters of which a call
    must pass exactly one. `positive`: the parameters that must be positive numbers. `repeats`: the parameters after the
    first are more of the same.
    """

    function: Function
    needs: int
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    one_of: tuple[str, ...] = ()
    positive: frozenset[str] = frozenset()
    repeats: bool = False

    @property
    def parameters(self) -> list[str]:
        """The names of the function's parameters, in order."""
        return [name for name, _ in self.function.parameters]

    @property
    def form(self) -> str:
        """The form of a call, for messages, such as `mask_text(value, keep_first, keep_last)`."""
        names = [*self.parameters[:2], "..."] if self.repeats else self.parameters
        return f"{self.function.name}({', '.join(names)})"


def _function(name: str, parameters: Mapping[str, str], returns: str, body: str) -> Function:
    return Function(name, tuple(parameters.items()), returns, body, None, Place("waterclock", 1, 1))


_ALL = (
    BuiltinFunction(
        _function("format_attribute", PARAMETERS, "STRING", format_sql()), needs=1, choices={"format": FORMATS}
    ),
    BuiltinFunction(_function("mask_text", OF_MASKS, "STRING", mask_sql()), needs=1),
    BuiltinFunction(_function("hash_keyed", HASH_PARAMETERS, "STRING", hash_sql()), needs=2),
    BuiltinFunction(_function("encrypt", ENCRYPT_PARAMETERS, "STRING", encrypt_sql()), needs=2),
    BuiltinFunction(_function("decrypt", DECRYPT_PARAMETERS, "STRING", decrypt_sql()), needs=2),
    BuiltinFunction(
        _function("generalize", OF_GENERALIZE, "STRING", generalize_sql()),
        needs=2,
        choices={"to": PERIODS},
        one_of=RULES,
        positive=frozenset({"width"}),
    ),
    BuiltinFunction(
        _function("perturb", PERTURB_PARAMETERS, "DOUBLE", perturb_sql()), needs=4, positive=frozenset({"scale"})
    ),
    BuiltinFunction(_function(DETOKENIZE, DETOKENIZE_PARAMETERS, "STRING", detokenize_sql()), needs=2),
    BuiltinFunction(_function("key_of", OF_KEYS, "STRING", key_sql()), needs=1, repeats=True),
)
BUILTINS_BY_NAME: Mapping[str, BuiltinFunction] = {each.function.name.upper(): each for each in _ALL}
"""The built-in functions by their upper-case names."""

FUNCTIONS: Mapping[str, Function] = {each.function.name: each.function for each in _ALL}

KEYED: Mapping[str, Sequence[str]] = {each.function.name: each.parameters for each in _ALL if "keys" in each.parameters}
"""The functions that need a secret key, each with its parameters; `keys` is the connection that contains the key."""

SECRET: frozenset[str] = frozenset({*KEYED, DETOKENIZE})
"""The functions that queries cannot call, because they need a secret key or the table of tokens."""


def check_builtin_call(source: SourceText, tokens: Sequence[Token], index: int, upper: str) -> WaterclockError | None:
    """Return the error if the token at `index` begins an invalid call of a built-in function; else None.

    `upper` is the token in capitals. Values of arguments are checked only if they are literals.
    """
    builtin = BUILTINS_BY_NAME.get(upper)
    following = tokens[index + 1].token_type if builtin and index + 1 < len(tokens) else None
    if builtin is None or following is not TokenType.L_PAREN:
        return None
    if index and tokens[index - 1].token_type is TokenType.DOT:
        return None
    given = list(arguments(tokens, index + 1))
    if not builtin.needs <= len(given) <= len(builtin.parameters):
        span = source.span(tokens[index].start, tokens[index].end + 1)
        count = f"{len(given)} argument{'s' if len(given) > 1 else ''}" if given else "no arguments"
        return _argument_error(
            span, builtin, f"{span.text} is called with {count}", fix=_argument_count_fix(span.text, builtin)
        )
    errors = (
        _check_argument(source, builtin, argument, name)
        for argument, name in zip(given, builtin.parameters, strict=False)
    )
    error = next((error for error in errors if error is not None), None)
    rules = [name for name in named_arguments(tokens, index + 1, builtin.parameters) if name in builtin.one_of]
    if error is not None or not builtin.one_of or len(rules) == 1:
        return error
    span = source.span(tokens[index].start, tokens[index].end + 1)
    what = f"{span.text} has the arguments {' and '.join(rules)}" if rules else f"{span.text} has no rule"
    return _argument_error(span, builtin, what, fix=f"pass one of {', '.join(builtin.one_of)}")


def find_calls(tokens: Sequence[Token], functions: Iterable[str]) -> Iterator[tuple[str, Token]]:
    """Yield each call of one of the functions: the name, spelled as in `functions`, and its token in the query."""
    names = {name.lower(): name for name in functions}
    before: Token | None = None
    for token, following in pairwise(tokens):
        is_part = before is not None and before.token_type is TokenType.DOT
        name = names.get(token.text.lower())
        if name and following.token_type is TokenType.L_PAREN and token.token_type not in STRINGS and not is_part:
            yield name, token
        before = token


def arguments(tokens: Sequence[Token], opening: int) -> Iterator[list[Token]]:
    """Yield the tokens of each argument between the bracket at `opening` and the one that closes it."""
    depth, argument = 0, list[Token]()
    for index in range(opening, len(tokens)):
        token = tokens[index]
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth == 0:
            break
        if depth == 1 and token.token_type is TokenType.COMMA:
            yield argument
            argument = []
        elif index > opening:
            argument.append(token)
    if argument:
        yield argument


def named_arguments(tokens: Sequence[Token], opening: int, parameters: Sequence[str]) -> dict[str, list[Token]]:
    """Map the parameters of a call to the tokens of their arguments, passed by position or as `name => ...`."""
    found: dict[str, list[Token]] = {}
    for argument, name in zip(arguments(tokens, opening), parameters, strict=False):
        is_named = len(argument) > 1 and argument[1].token_type is TokenType.FARROW
        if is_named:
            found[argument[0].text.lower()] = argument[2:]
        else:
            found[name] = argument
    return {name: argument for name, argument in found.items() if argument}


def called_functions(functions: Mapping[str, Function], texts: Iterable[str]) -> list[Function]:
    """Return the functions that SQL texts call, directly or indirectly, callees first: the order to create them in."""
    found: dict[str, Function] = {}
    begun: set[str] = set()

    def add(text: str) -> None:
        lower = text.lower()
        named = [name for name in functions if name.lower() in lower]  # most texts name none, and are not tokenized
        for name, _ in find_calls(dialect().tokenize(text), named) if named else ():
            if name not in begun:
                begun.add(name)
                add(functions[name].body or "")
                found[name] = functions[name]

    for text in texts:
        add(text)
    return list(found.values())


def _check_argument(
    source: SourceText, builtin: BuiltinFunction, tokens: Sequence[Token], name: str
) -> WaterclockError | None:
    """Return the error for one argument, or None.

    `name` is the parameter at its position; an argument `name => ...` names another one.
    """
    if len(tokens) > 1 and tokens[1].token_type is TokenType.FARROW:
        name, span = tokens[0].text.lower(), source.span(tokens[0].start, tokens[0].end + 1)
        if builtin.repeats:
            return _argument_error(
                span, builtin, f"{builtin.function.name} has no named arguments", fix="write the value alone"
            )
        if name not in builtin.parameters:
            fix = did_you_mean(name, builtin.parameters) or f"write {' or '.join(builtin.parameters)}"
            return _argument_error(span, builtin, f"{builtin.function.name} has no argument {span.text}", fix=fix)
        tokens = tokens[2:]
    if name in builtin.positive and (number := _literal_of(tokens)) is not None and not _is_positive(number):
        span = source.span(tokens[0].start, tokens[-1].end + 1)
        return span.refuse("E310", f"{name} must be a positive number, not {span.text}", fix="write a positive number")
    choices = builtin.choices.get(name, ())
    if not choices or len(tokens) != 1 or tokens[0].text in choices:
        return None
    if tokens[0].token_type not in {*STRINGS, TokenType.NULL, TokenType.NUMBER}:
        return None
    span = source.span(tokens[0].start, tokens[0].end + 1)
    return span.refuse(
        "E310",
        f"unknown value {span.text} of {name}",
        fix=did_you_mean(tokens[0].text, choices, otherwise=f"write one of {', '.join(choices)}"),
    )


def _literal_of(tokens: Sequence[Token]) -> str | None:
    """Return the text of a literal, with its sign; None for an expression."""
    is_literal = bool(tokens) and tokens[-1].token_type in {*STRINGS, TokenType.NUMBER}
    is_signed = len(tokens) == 2 and tokens[0].token_type in {TokenType.DASH, TokenType.PLUS}
    return "".join(token.text for token in tokens) if is_literal and (is_signed or len(tokens) == 1) else None


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def _argument_count_fix(name: str, builtin: BuiltinFunction) -> str:
    """Return a fix with the shortest valid call of a function, and how many more arguments it accepts."""
    call = f"{name}({', '.join(builtin.parameters[: builtin.needs])})"
    more = len(builtin.parameters) - builtin.needs
    return f"write {call}" + (f", with at most {more} more argument{'s' if more > 1 else ''}" if more else "")


def _argument_error(span: Span, builtin: BuiltinFunction, what: str, *, fix: str) -> WaterclockError:
    return span.refuse("E238", what, why=f"its form is {builtin.form}", fix=fix)
