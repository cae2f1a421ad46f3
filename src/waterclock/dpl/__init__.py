"""Compiles statements in DPL and Python to declarations, and resolves the references in their queries. Pure."""

from __future__ import annotations
