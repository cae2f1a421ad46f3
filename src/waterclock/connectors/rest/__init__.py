"""The connection type `rest`: an API over HTTP, its records collected page by page, rows sent to it in chunks."""

from __future__ import annotations
