"""Builds the error for forms and combinations of declarations that this version does not support."""

from __future__ import annotations

from waterclock.dpl.syntax.source_text import Span
from waterclock.errors import WaterclockError


def unsupported_error(name: str, span: Span, *, fix: str | None = None) -> WaterclockError:
    """Build the error E208 for a form or a combination that is not supported."""
    return span.refuse(
        "E208",
        f"not supported: {name}",
        why="this version does not support it, and ignores no declaration silently",
        fix=fix or "leave it out",
    )
