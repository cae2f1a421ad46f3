from __future__ import annotations

from waterclock.connectors.files.error_positions import explain
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.flow.declarations import Columns

# what Spark said of a file whose store was killed while it was read, shortened
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
