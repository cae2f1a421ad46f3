"""Finds the known names that a user may have meant by a misspelled one, and words the hint "did you mean X?"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def find_similar(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Return the known names most similar to `name`, best first, at most `most`."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=most, cutoff=0.6)
    return [by_lower[match] for match in close]


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str | None = None) -> str | None:
    """Return "did you mean X or Y?" with the known names similar to `name`; `otherwise` if none is similar."""
    names = find_similar(name, known)
    return f"did you mean {' or '.join(names)}?" if names else otherwise
