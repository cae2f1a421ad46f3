"""Transfers Waterclock errors from Spark's Python workers to the driver, inside Spark's own error message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from waterclock.errors import WaterclockError

_MARK = "waterclock-error:"


@contextmanager
def encode_errors() -> Iterator[None]:
    """Convert a Waterclock error in the block to an error whose text contains all its fields.

    This is necessary because only the text of a worker's error reaches the driver.
    """
    try:
        yield
    except WaterclockError as error:
        raise RuntimeError(_MARK + json.dumps(error.to_dict())) from error


def decode_error(error: BaseException) -> WaterclockError | None:
    """Return the Waterclock error that a Spark error from a worker contains; None if it contains none."""
    found = re.search(re.escape(_MARK) + r"(\{.*\})", str(error))
    return WaterclockError(**json.loads(found[1])) if found else None
