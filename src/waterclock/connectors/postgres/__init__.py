"""Tables and queries of PostgreSQL databases, and tables delivered to them."""

from __future__ import annotations
