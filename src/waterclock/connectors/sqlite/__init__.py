"""Reads tables and queries of SQLite databases, and delivers tables to them."""

from __future__ import annotations
