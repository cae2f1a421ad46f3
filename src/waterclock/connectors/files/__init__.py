"""Files that land in folders and files that are delivered to them: CSV, JSON, Parquet."""

from __future__ import annotations
