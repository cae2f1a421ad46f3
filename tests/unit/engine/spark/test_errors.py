"""Errors of other libraries are converted to ours, and classified as transient or permanent."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from waterclock.dpl.query.splice import SplicedQuery, TextPiece
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.engine.spark.errors import add_batch_place, is_transient, to_error, user_code_error
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Place
from waterclock.temporal.query_refusals import UNPLACED, stop_text

WHERE = "marts.a@20130101000000"


class SparkError(Exception):
    """A fake of PySpark's error: a condition, its parameters, and a message with a stack trace."""

    def __init__(
        self, text: str, condition: str | None = "UNRESOLVED_COLUMN.WITH_SUGGESTION", **parameters: str
    ) -> None:
        super().__init__(text)
        self.condition, self.parameters = condition, parameters

    def getCondition(self) -> str | None:  # noqa: N802 - PySpark's name
        return self.condition

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802
        return self.parameters


class Py4JNetworkError(Exception):
    """A fake of py4j's error, which is recognized by its name."""


class Py4JJavaError(Exception):
    """A fake of py4j's error: a Java exception that PySpark does not convert."""


def test_an_endless_recursion_is_an_error_of_the_query() -> None:
    text = (
        "An error occurred while calling o32.collectToPython.\n"
        ": org.apache.spark.SparkException: [RECURSION_LEVEL_LIMIT_EXCEEDED] Recursion level limit 100 reached but "
        "query has not exhausted, try increasing it like 'WITH RECURSIVE t(col) MAX RECURSION LEVEL 200'. "
        "SQLSTATE: 42836\n\tat org.apache.spark.sql.exe"
    )
    error = to_error(Py4JJavaError(text), where=WHERE)
    assert (error.code, error.why) == ("E730", "Spark reports RECURSION_LEVEL_LIMIT_EXCEEDED")
    assert error.what.endswith("MAX RECURSION LEVEL 200'.")


def test_our_own_errors_pass_through_and_get_a_place_where_they_have_none() -> None:
    ours = WaterclockError("E811", "locked", transient=True)
    assert to_error(ours, where=WHERE) is ours
    assert ours.where == WHERE
    assert to_error(ours, where="elsewhere").where == WHERE


def test_the_batch_is_named_beside_the_file_or_object_once() -> None:
    bare = add_batch_place(WaterclockError("E1", "x"), "marts.a", WHERE)
    of_file = add_batch_place(WaterclockError("E1", "x", where="new/a.csv:3"), "marts.a", WHERE)
    assert bare.where == WHERE
    assert of_file.where == f"new/a.csv:3 ({WHERE})"
    assert add_batch_place(of_file, "marts.a", "marts.a@20130102000000").where == f"new/a.csv:3 ({WHERE})"


def test_an_api_error_names_once_where_the_table_that_reads_it_is_declared() -> None:
    place = Place("flows/a.dpl", 3, 1)
    of_api = add_batch_place(WaterclockError("E845", "x", where="api.orders, page 2"), "marts.a", WHERE, place)
    assert of_api.where == f"api.orders, page 2 ({WHERE}, flows/a.dpl:3:1)"
    assert add_batch_place(of_api, "marts.a", WHERE, place).where == of_api.where, "once"
    assert add_batch_place(WaterclockError("E806", "x"), "marts.a", WHERE, place).where == WHERE


def test_a_full_disk_has_one_transient_error_code_in_python_and_spark() -> None:
    of_python = to_error(OSError(errno.ENOSPC, "No space left on device", "part-0.parquet"), where=WHERE)
    of_spark = to_error(SparkError("java.io.IOException: No space left on device", None), where=WHERE)
    of_job = to_error(SparkError("[TASK_WRITE_FAILED] … No space left on device", "TASK_WRITE_FAILED"), where=WHERE)
    for error in (of_python, of_spark, of_job):
        assert (error.code, error.transient, error.where) == ("E711", True, WHERE)
    assert "part-0.parquet" in (of_python.why or "")


def test_a_full_heap_of_spark_is_tried_again_with_advice() -> None:
    raised = RuntimeError(
        "An error occurred while calling o163110.parquet.\n: org.apache.spark.SparkException: Not enough memory to"
        " build and broadcast the table to all worker nodes. As a workaround, you can either disable broadcast …"
    )
    of_task = RuntimeError("An error occurred while calling o1.collect.\n: java.lang.OutOfMemoryError: Java heap space")
    for error, is_passing in ((to_error(raised, where=WHERE), True), (to_error(of_task, where=WHERE), False)):
        assert (error.code, error.transient, error.where) == ("E790", is_passing, WHERE)
        assert "[spark] in waterclock.toml" in (error.fix or "")


@pytest.mark.parametrize(
    "gone",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        RuntimeError("PythonUtils does not exist in the JVM"),
        SparkError("Unable to parse datatype. An error occurred while calling o121.schema.", "CANNOT_PARSE_DATATYPE"),
        RuntimeError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis stopped"),
    ],
)
def test_a_dead_jvm_is_a_transient_error(gone: Exception) -> None:
    error = to_error(gone, where=WHERE)
    assert (error.code, error.transient) == ("E712", True)


def test_an_error_raised_inside_the_jvm_does_not_mean_a_dead_jvm() -> None:
    told = RuntimeError("An error occurred while calling o12.load.\n: java.lang.IllegalStateException: no")
    assert to_error(told, where=WHERE).code == "E790"


def test_a_query_stopped_by_a_temporal_function_has_the_error_code_of_that_function(tmp_path: Path) -> None:
    stopped = SparkError(f"[USER_RAISED_EXCEPTION] {stop_text(UNPLACED)} SQLSTATE: P0001", "USER_RAISED_EXCEPTION")
    for error in (
        to_error(stopped, where=WHERE),
        user_code_error(stopped, where=WHERE, file=tmp_path / "a.py", root=tmp_path),
    ):
        assert (error.code, error.what, error.where) == ("E304", "a row without key or time", WHERE)


def test_an_out_of_memory_error_mentions_memory() -> None:
    assert "memory" in to_error(MemoryError(), where=WHERE).what


def test_sparks_error_names_its_condition_and_the_nearest_name_and_shows_no_trace() -> None:
    raised = SparkError(
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `amuont` cannot be resolved. SQLSTATE: 42703; line 1 pos 7\n"
        "\tat org.apache.spark.sql.Analyzer(Analyzer.scala:1)\nCaused by: more",
        objectName="`amuont`",
        proposal="`amount`, `id`",
    )
    error = to_error(raised, where=WHERE)
    assert (error.code, error.transient) == ("E730", False)
    assert error.what == "A column `amuont` cannot be resolved."
    assert error.fix == "did you mean amount?"
    assert "org.apache" not in error.render()


def test_a_misspelt_builtin_function_is_reported_with_the_nearest_name() -> None:
    raised = SparkError(
        "[UNRESOLVED_ROUTINE] Cannot resolve routine `format_atribute`. SQLSTATE: 42883; line 1 pos 7",
        "UNRESOLVED_ROUTINE",
        routineName="`format_atribute`",
    )
    assert to_error(raised, where=WHERE).fix == "did you mean format_attribute?"


def test_sparks_position_is_the_users_place() -> None:
    source = SourceText("flows/a.dpl", "TRANSFORM marts.a AS\nSELECT amuont FROM x;")
    begin = source.text.index("SELECT")
    spliced = SplicedQuery("SELECT amuont FROM x", (TextPiece(0, source, begin, True),))
    error = to_error(SparkError("[X] no. line 1, pos 7"), where=WHERE, spliced=spliced)
    assert error.where == f"flows/a.dpl:2:8 ({WHERE})"


def test_an_error_without_a_message_is_reported_with_its_type_and_the_line_that_raised_it() -> None:
    with pytest.raises(KeyError) as raised:
        dict[str, str]()["lost"]
    error = to_error(raised.value, where=WHERE)
    assert error.code == "E790"
    assert "KeyError" in error.what
    assert "test_errors.py" in (error.why or "")


def test_a_long_message_is_cut() -> None:
    assert len(to_error(ValueError("x" * 5000), where=WHERE).what) < 500


_READ = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file s3a://lake/tables/web/a/p.parquet."
_ASKED = "Caused by: java.io.IOException: software.amazon.awssdk.core.exception.SdkClientException: "


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            f"{_ASKED}Unable to execute HTTP request: The target server failed to respond (SDK Attempt Count: 4)",
            "Unable to execute HTTP request: The target server failed to respond",
        ),
        (
            "java.io.IOException: NoHttpResponseException",
            "NoHttpResponseException",
        ),
        (
            "ConnectionClosedException: Premature end of Content-Length delimited message body",
            "Premature end of Content-Length",
        ),
    ],
)
@pytest.mark.parametrize("condition", [None, "FAILED_READ_FILE.NO_HINT"])
def test_a_store_that_breaks_off_a_job_is_reported_as_an_unreachable_store(
    text: str, why: str, condition: str | None
) -> None:
    error = to_error(SparkError(f"{_READ}\n{text}", condition), where=WHERE)
    assert (error.code, error.transient, error.where) == ("E609", True, WHERE)
    assert error.why == f"it does not answer Spark: {why}"


def test_a_file_that_is_damaged_is_no_store_that_is_away() -> None:
    text = f"{_READ}\nCaused by: java.io.IOException: is not a Parquet file (Status Code: 404)"
    for condition in (None, "FAILED_READ_FILE.NO_HINT"):
        assert not to_error(SparkError(text, condition), where=WHERE).transient


@pytest.mark.parametrize(
    "raised",
    [
        ConnectionResetError("reset"),
        TimeoutError(),
        OSError("Connection reset by peer"),
        RuntimeError("503 Service Unavailable"),
        RuntimeError("ExecutorLostFailure: executor lost"),
        SparkError("", "DELTA_CONCURRENT_APPEND"),
        WaterclockError("E1", "x", transient=True),
    ],
)
def test_networks_conflicts_and_lost_executors_may_pass(raised: Exception) -> None:
    assert is_transient(raised)


@pytest.mark.parametrize(
    "raised",
    [
        ZeroDivisionError("division by zero"),
        SparkError("Division by zero; connection reset", "DIVIDE_BY_ZERO"),
        ValueError("no"),
        WaterclockError("E1", "connection reset"),
    ],
)
def test_a_division_by_zero_is_never_transient_whatever_its_message(raised: Exception) -> None:
    assert not is_transient(raised)


def test_a_division_by_zero_is_reported_with_try_divide_as_the_fix() -> None:
    error = to_error(SparkError("[DIVIDE_BY_ZERO] Division by zero.", "DIVIDE_BY_ZERO"), where=WHERE)
    assert "try_divide" in (error.fix or "")


def test_an_error_in_the_users_python_shows_the_projects_frames_alone_the_last_one_first(tmp_path: Path) -> None:
    files = {
        "rates.py": "def rate():\n    return 1 // 0\n",
        "flows/site-packages/lib.py": "def call(of):\n    return of()\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    flow = tmp_path / "flows" / "a.py"
    spaces: dict[str, object] = {}
    for name, text in files.items():
        exec(compile(text, str(tmp_path / name), "exec"), spaces)
    flow.write_text("def a():\n    return call(rate)\n")
    exec(compile(flow.read_text(), str(flow), "exec"), spaces)
    with pytest.raises(ZeroDivisionError) as raised:
        spaces["a"]()  # type: ignore[operator]  # the function made above
    error = user_code_error(raised.value, where=WHERE, file=flow, root=tmp_path)
    assert error.code == "E720"
    assert error.where == f"rates.py:2 ({WHERE})"
    assert error.why == "rates.py:2 in rate: return 1 // 0; called from flows/a.py:2 in a: return call(rate)"
    assert "site-packages" not in error.render()
    assert not error.transient


def test_an_error_raised_beyond_the_project_names_the_functions_file(tmp_path: Path) -> None:
    error = user_code_error(TypeError("no"), where=WHERE, file=tmp_path / "flows" / "a.py", root=tmp_path)
    assert error.where == f"flows/a.py ({WHERE})"


def test_a_jvm_that_dies_in_a_user_function_is_not_an_error_of_that_function(tmp_path: Path) -> None:
    gone = Py4JNetworkError("Error while sending or receiving")
    error = user_code_error(gone, where=WHERE, file=tmp_path / "flows" / "a.py", root=tmp_path)
    assert (error.code, error.transient, error.where) == ("E712", True, WHERE)


def refused_in(file: Path) -> ConnectionRefusedError:
    code = compile("def connect():\n    raise ConnectionRefusedError(111, 'Connection refused')\n", str(file), "exec")
    spaces: dict[str, object] = {}
    exec(code, spaces)
    with pytest.raises(ConnectionRefusedError) as raised:
        spaces["connect"]()  # type: ignore[operator]  # the function made above
    return raised.value


def test_only_a_refused_connection_to_the_jvm_means_a_dead_jvm(tmp_path: Path) -> None:
    flow = tmp_path / "flows" / "a.py"
    to_the_jvm = refused_in(tmp_path / "site-packages" / "py4j" / "java_gateway.py")
    assert to_error(to_the_jvm, where=WHERE).code == "E712"
    assert user_code_error(to_the_jvm, where=WHERE, file=flow, root=tmp_path).code == "E712"
    to_a_server = refused_in(flow)
    assert to_error(to_a_server, where=WHERE).code == "E790"
    told = user_code_error(to_a_server, where=WHERE, file=flow, root=tmp_path)
    assert (told.code, told.transient) == ("E720", True)


def test_plan_trees_and_stack_traces_are_left_out_of_the_message() -> None:
    said = "something is wrong\n'Project ['nope]\n+- 'Join Inner\n   :- SubqueryAlias o"
    assert to_error(RuntimeError(said), where=WHERE).what == "RuntimeError: something is wrong"
    assert to_error(RuntimeError("it broke\n== Physical Plan ==\nScan"), where=WHERE).what == "RuntimeError: it broke"


def test_spark_advice_about_its_own_settings_is_left_out_of_the_message() -> None:
    said = (
        "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead. If "
        'necessary set "spark.sql.ansi.enabled" to "false" to bypass this error. SQLSTATE: 22012'
    )
    told = to_error(SparkError(said, "DIVIDE_BY_ZERO"), where=WHERE)
    assert told.what == "Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead."


def test_names_that_spark_suggests_are_listed_once_without_quotes() -> None:
    said = "[UNRESOLVED_COLUMN] `nope` cannot be resolved. Did you mean one of the following? [`c`.`name`, `o`.`id`]."
    raised = SparkError(said, "UNRESOLVED_COLUMN", objectName="`nope`", proposal="`c`.`name`, `o`.`id`")
    told = to_error(raised, where=WHERE)
    assert (told.what, told.fix) == ("`nope` cannot be resolved.", "known: c.name, o.id")


def test_names_that_spark_proposes_are_not_passed_off_as_all_there_are() -> None:
    proposal = "`amount`, `at`, `memo`, `order_id`, `timelabel`"
    raised = SparkError("[UNRESOLVED_COLUMN] x", "UNRESOLVED_COLUMN", objectName="`kafka_offset`", proposal=proposal)
    assert to_error(raised, where=WHERE).fix == "known: amount, at, memo, order_id, timelabel, ..."


def test_a_java_error_without_a_condition_is_reported_by_its_root_cause() -> None:
    told = RuntimeError(
        "An error occurred while calling o1.getResult.\n: org.apache.spark.SparkException: Exception thrown in "
        "awaitResult: \n\tat a.b(C.scala:1)\nCaused by: java.lang.RuntimeException: Error loading expression 'a'\n"
        "\tat d.e(F.java:2)\nCaused by: org.xml.sax.SAXParseException; lineNumber: 1; columnNumber: 43; External DTD\n"
    )
    assert to_error(told, where=WHERE).what == "RuntimeError: lineNumber: 1; columnNumber: 43; External DTD"
