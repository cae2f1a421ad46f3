"""Commits that bring slices into a table: by pointers where files can stand, by Spark where not."""

from __future__ import annotations
