"""The error codes with their explanations, one module for each subject; `catalog` collects them all."""

from __future__ import annotations
