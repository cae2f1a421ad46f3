"""Reads text: tokens, clauses and statements with their places, and what is wrong with them. Knows no flow."""

from __future__ import annotations
