"""The connection type `waterclock`: tables of another Waterclock project, collected at its ticks."""

from __future__ import annotations
