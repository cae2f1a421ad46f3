"""Makes a flow of statements: names, cadences, columns, rules and legality, with all errors at once."""

from __future__ import annotations
