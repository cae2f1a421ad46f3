from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.files.error_positions import explain
from waterclock.connectors.files.reading_options import Position, ReadOptions
from waterclock.flow.declarations import Columns
from waterclock.testing.connectors import declared

# Spark's message about a file whose store was killed while it was read, shortened
AWAY = """An error occurred while calling o170.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file \
s3://lake/x.csv.  SQLSTATE: KD001
Caused by: java.net.ConnectException: getFileStatus on s3://lake/x.csv: \
software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request: Connect to \
127.0.0.1:45157 [/127.0.0.1] failed: Connection refused (SDK Attempt Count: 4)
"""


def test_a_store_that_broke_off_is_no_broken_row() -> None:
    error = explain(RuntimeError(AWAY), ReadOptions(), Columns())
    assert error is not None
    assert (error.code, error.where, error.transient) == ("E609", "s3://lake/x.csv", True)
    assert "does not answer Spark: Unable to execute HTTP request" in (error.why or "")


def test_an_error_of_no_file_is_not_explained() -> None:
    assert explain(RuntimeError("division by zero"), ReadOptions(), Columns()) is None


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.jsonl"])
def test_a_date_in_the_declared_form_is_no_broken_row(tmp_path: Path, name: str) -> None:
    rows = [("10.11.2026", "1"), ("11.11.2026", "x")]
    lines = {
        "a.csv": ["day,n", *map(",".join, rows)],
        "a.txt": ["", *("".join(row) for row in rows)],
        "a.jsonl": ["", *(f'{{"day": "{day}", "n": "{n}"}}' for day, n in rows)],
    }
    path = tmp_path / name
    path.write_text("\n".join(lines[name]) + "\n")
    reading = ReadOptions(
        date_format="dd.MM.yyyy", positions=(Position("day", 1, 10), Position("n", 11, None)), timestamp_format="HH"
    )
    said = f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{path}.  SQLSTATE: KD001"
    error = explain(RuntimeError(said), reading, declared(("day", "DATE"), ("n", "INT")))
    assert error is not None
    assert (error.code, error.where, error.why) == ("E806", f"{path}:3", "n is 'x', which is not INT")


@pytest.mark.parametrize("is_multiline", [False, True])
@pytest.mark.parametrize(
    ("number", "digits"), [("9" * 5_000, "5,000"), ("-" + "9" * 1_001, "1,001"), ("0." + "1" * 4_400, "4,401")]
)
def test_a_number_of_more_digits_than_spark_reads_is_named(
    tmp_path: Path, number: str, digits: str, *, is_multiline: bool
) -> None:
    path = tmp_path / "a.json"
    text = f'{{"n": 1, "m": {"9" * 1_000}}}\n{{"n": {number}}}\n'
    path.write_text(f"[{text.replace('}', '},', 1)}]" if is_multiline else text)
    error = explain(RuntimeError(_failed_read(path)), ReadOptions(is_multiline=is_multiline), Columns(is_open=True))
    assert error is not None
    assert (error.code, error.where) == ("E806", f"{path}:2")
    assert error.why == f"it has a number of {digits} digits, and at most 1,000 can be read"


def _failed_read(path: Path) -> str:
    return f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{path}.  SQLSTATE: KD001"
