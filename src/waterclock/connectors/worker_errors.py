"""Brings the errors that Python workers of Spark meet home, within what Spark says of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from waterclock.errors import WaterclockError

_MARK = "waterclock-error:"


@contextmanager
def carrying() -> Iterator[None]:
    """Have an error of ours say all of itself in its text, which is what comes home of it."""
    try:
        yield
    except WaterclockError as error:
        raise RuntimeError(_MARK + json.dumps(error.to_dict())) from error


def carried(error: BaseException) -> WaterclockError | None:
    """Find the error that a worker met in what Spark says of it; None where it met none of ours."""
    found = re.search(re.escape(_MARK) + r"(\{.*\})", str(error))
    return WaterclockError(**json.loads(found[1])) if found else None
