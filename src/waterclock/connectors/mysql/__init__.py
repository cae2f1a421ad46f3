"""Reads tables and queries of MariaDB and MySQL databases, and delivers tables to them."""

from __future__ import annotations
