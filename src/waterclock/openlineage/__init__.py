"""Tells other tools, in OpenLineage's words, what became of each batch: from what, by what, with which rows."""

from __future__ import annotations
