"""Looks into queries: tables and columns they name, where columns come from, what no table can hold."""

from __future__ import annotations
