"""Defines the errors that functions such as `decrypt` raise at a row, and finds them in the text of Spark's error.

A query can fail at a row only by `raise_error`. Its message is fixed, so no error contains a value of a row, except the
ones given in brackets.
"""

from __future__ import annotations

import re
from types import MappingProxyType

from waterclock.errors import WaterclockError

NO_KEY = "the key of a function is missing"
LOST_KEY = "the key of an encrypted text is missing"
UNREADABLE = "a text cannot be decrypted"
NOT_ENCRYPTED = "a text was not made by encrypt"
NOT_POSITIVE = "the scale of perturb is not a positive number"
NO_RULE = "generalize has no rule"
UNKNOWN_PERIOD = "an unknown period for generalize"
NO_WIDTH = "the width of generalize is not a positive number"
WITHOUT_TOKEN = "a value has no token"  # noqa: S105 - a message
UNKEYED = "key_of cannot encode a type"
# the code, the reason and the fix of each; a reason may show the value in brackets
_ERRORS = MappingProxyType(
    {
        NO_KEY: (
            "E735",
            "the session has no such key, although the flow declares it",
            "report this as a defect: without the check, the function would give NULL",
        ),
        LOST_KEY: (
            "E735",
            "it was encrypted with the key {}, which the connection does not have",
            "add the key and its secret to the connection again: only this key can decrypt it",
        ),
        UNREADABLE: (
            "E736",
            "the text or its context was changed, or the key has another secret than at that time",
            "pass the connection and the context that encrypt got, and compare the secret with the earlier one",
        ),
        NOT_ENCRYPTED: (
            "E736",
            "encrypted texts begin with wc1: and the name of their key",
            "decrypt only columns that encrypt made",
        ),
        NOT_POSITIVE: ("E310", "a row has {}", "pass a positive number"),
        NO_RULE: (
            "E310",
            "it gets none or several of the arguments `to`, `width` and `keep_first`",
            "pass one of them, as in generalize(born, to => 'year')",
        ),
        UNKNOWN_PERIOD: ("E310", "a row has {}", "it takes year, quarter, month, week or day"),
        UNKEYED: (
            "E238",
            "the type is {}, and a key needs one text for each value that all systems agree on",
            "pass a number as a decimal, as in CAST(price AS DECIMAL(18, 2)), and values of a list one by one",
        ),
        WITHOUT_TOKEN: (
            "E466",
            "the rows that are written are not those whose values got tokens: the source has changed meanwhile",
            "retry the batch",
        ),
        NO_WIDTH: ("E310", "a row has {}", "pass a positive number of at most 9 decimal places"),
    }
)
_RAISED = "[USER_RAISED_EXCEPTION] "


def message_of(refusal: str) -> str:
    """Return the message with which a row fails; a value in brackets may follow it."""
    return f"{_ERRORS[refusal][0]} {refusal}"


def stop_sql(refusal: str, value: str = "") -> str:
    """Return the SQL that fails with a refusal, and shows the value of a text expression if one is passed."""
    message = message_of(refusal)
    return f"raise_error(concat('{message} [', {value}, ']'))" if value else f"raise_error('{message}')"


def row_refusal_of(error: BaseException) -> WaterclockError | None:
    """Return the error of this module that caused a Spark error, or None if the cause is another one.

    The text of the refusal must follow Spark's marker of a raised exception, because a plan that Spark prints contains
    it too.
    """
    text = str(error)
    for refusal, (code, why, fix) in _ERRORS.items():
        found = re.search(re.escape(f"{_RAISED}{message_of(refusal)}") + r"(?: \[(.*?)\])?", text)
        if found is not None:
            return WaterclockError(code, refusal, why=why.format(found[1] or "no value"), fix=fix)
    return None
