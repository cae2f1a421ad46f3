"""Tables and queries of MariaDB and MySQL databases, and tables delivered to them."""

from __future__ import annotations
