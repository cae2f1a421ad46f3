"""Parses text into tokens, clauses and statements with their places, and reports syntax errors. Knows no flow."""

from __future__ import annotations
