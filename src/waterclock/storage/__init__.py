"""What rests: sealed slices and manifests, Delta commits, and the log read as files.

Names are loaded when they are asked for: reading manifests and logs needs neither Spark nor delta-rs.
"""

from __future__ import annotations
