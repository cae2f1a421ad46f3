"""The language: statements in DPL and Python to declarations, references found in queries and put in place. Pure."""

from __future__ import annotations
