"""Builds the SQL of `detokenize`, which returns the value of a random token.

The function reads a temporary view with the tokens of all subjects. Spark evaluates it as a join.
"""

from __future__ import annotations

from collections.abc import Mapping

DETOKENIZE = "detokenize"
DETOKENIZE_PARAMETERS: Mapping[str, str] = {"token": "STRING", "subject": "STRING"}

TOKENS_VIEW = "wc_tokens"
TOKENS_VIEW_COLUMNS: Mapping[str, str] = {"of_subject": "STRING", "of_token": "STRING", "of_value": "STRING"}


def detokenize_sql() -> str:
    """Return the body of `detokenize`: NULL for a text that is no token, or whose value was erased."""
    return f"(SELECT max(of_value) FROM {TOKENS_VIEW} WHERE of_subject = subject AND of_token = token)"
