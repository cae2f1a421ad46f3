"""Questions of people: queries as of a tick, and the columns that tables have at rest."""

from __future__ import annotations
