"""The page for users: its program runs and prints the output that the page shows."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "temporal-tables.md"
_BLOCK = re.compile(r"^```(py|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_program_of_the_page_prints_its_documented_output(spark: SparkSession) -> None:
    printed, names = io.StringIO(), {"spark": spark}
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    with redirect_stdout(printed):
        for language, body in blocks:
            if language == "py":
                exec(body, names)
    said = "\n".join(body.rstrip() for language, body in blocks if language == "text")
    found = "\n".join(line for line in printed.getvalue().splitlines() if line)
    assert found == "\n".join(line for line in said.splitlines() if line)
