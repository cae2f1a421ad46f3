"""Events that come over HTTP: kept on a disk of this machine before they are answered, and collected by arrival."""

from __future__ import annotations
