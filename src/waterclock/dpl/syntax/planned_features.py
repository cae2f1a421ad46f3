"""Builds the error for words of the language that this release does not support yet."""

from __future__ import annotations

from waterclock.dpl.syntax.source_text import Span
from waterclock.errors import WaterclockError


def planned_feature_error(name: str, span: Span, *, fix: str | None = None) -> WaterclockError:
    """Build the error for a word or feature of a later release."""
    return span.refuse(
        "E208",
        f"not available yet: {name}",
        why="it is planned for a later release",
        fix=fix or "leave it out for now",
    )
