"""What a user declares: tables, functions, modes, policies, and the graph of them. Pure."""

from __future__ import annotations
