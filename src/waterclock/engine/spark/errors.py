"""Converts exceptions of Spark, Delta, drivers and user code into `WaterclockError`s."""

from __future__ import annotations

import errno
import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.dpl.python.failures import list_project_frames
from waterclock.dpl.query.builtins import FUNCTIONS
from waterclock.dpl.query.references import MARKS, READS, VALUES
from waterclock.errors import WaterclockError, noted_inputs
from waterclock.files import object_stores
from waterclock.masking.row_refusals import row_refusal_of
from waterclock.similar_names import did_you_mean
from waterclock.temporal import refusal_of

if TYPE_CHECKING:
    from waterclock.dpl.query.splice import SplicedQuery
    from waterclock.flow.declarations import Place

_TRANSIENT_CONDITIONS = (
    "CONCURRENT",
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
)
# conditions of a file that could not be read or written: only the message has the cause
_FILE_CONDITIONS = ("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER", "TASK_WRITE_FAILED")
_TRANSIENT_WORDS = (
    "connection reset",
    "connection refused",
    "broken pipe",
    "timed out",
    "timeout",
    "temporarily unavailable",
    "lost task",
    "executor lost",
    "executorlost",
    "slow down",
    "service unavailable",
    "too many requests",
    "database is locked",
)
_NO_BROADCAST = "Not enough memory to build and broadcast the table"
_OUT_OF_MEMORY = ("java.lang.OutOfMemoryError", _NO_BROADCAST)
# columns count from 0 after `pos`, and from 1 after `position`, which Spark writes for an expression that failed
_POSITION = re.compile(r"line (\d+),? (pos|position) (\d+)")
_JVM_GONE = re.compile(
    "Answer from Java side is empty|stopped SparkContext|SparkContext was shut down|does not exist in the JVM$"
    r"|An error occurred while calling [\w.]+\.?$"  # if the JVM answered, its error follows
)
# a server that went away, or was restarted and does not know the session
_SERVER_GONE = re.compile(
    r"UNAVAILABLE|failed to connect|INVALID_HANDLE|SESSION_NOT_FOUND|SESSION_CLOSED|SESSION_CHANGED"
)
# the start of stack traces, the query's text or plan trees in a message
_JVM_LINES = re.compile(r"\n\s*(at |JVM stacktrace|== |\.\.\. \d+ more|Caused by:|'?[A-Z]\w+ \[|[+:]- )")
_JVM_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)*[\w$]+[:;] (.+)$", re.MULTILINE)
# advice in Spark's messages that is left out: Waterclock sets these settings, and our `fix` has the proposals
_SPARKS_ADVICE = re.compile(
    r" If necessary,? set .*? to bypass this error\.?| Did you mean one of the following\? \[.*?\]\.?", re.DOTALL
)
_NO_SQL_FUNCTION = ("UNSUPPORTED_SQL_UDF_USAGE", "UNSUPPORTED_FEATURE.LAMBDA_FUNCTION_WITH_SQL_UDF")
_JVM_IS_GONE = "E712"
_API_CODES = "E84"
# the condition in the text of an exception that PySpark does not convert: a recursive query without end
_IN_TEXT = re.compile(r"^: org\.apache\.spark\.SparkException: \[(RECURSION_[A-Z_]+)\] ", re.MULTILINE)
_STATEFUL_RULE_ERROR = re.compile(r"ValueError: wc\.stateful: (?P<what>[^|\n]*) \| (?P<why>[^|\n]*) \|")
_CONDITION_FUNCTIONS = ("watermark", "closed_by_hand")
_MOST_WHY = 400
_MOST_PROPOSED = 5  # names, in Spark's proposals
_MOST_FRAMES = 3


def to_error(  # noqa: PLR0911 - one kind of error after the other
    error: BaseException, *, where: str, spliced: SplicedQuery | None = None
) -> WaterclockError:
    """Convert an exception into a `WaterclockError`. An exception that is one already gets `where` if it has no place.

    `spliced` maps Spark's error positions back to the user's file. `transient` is True if the same action may succeed
    when it is retried.
    """
    if isinstance(error, WaterclockError):
        return error.at(where)
    if isinstance(error, MemoryError):
        return WaterclockError(
            "E790", "out of memory", where=where, fix=("give the runner more memory, or make its batches smaller")
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return WaterclockError(
            "E711",
            "the disk is full",
            where=where,
            why=f"writing {error.filename or 'the slice'} failed: {error.strerror}",
            fix="free disk space, then `waterclock run` again; nothing of this revision is visible, and an earlier one "
            "stays",
            transient=True,
        )
    if isinstance(error, OSError) and (unreached := object_stores.translate_obstore_error(error, where)):
        return unreached  # this is how delta-rs reports its store
    if refusal := refusal_of(error) or row_refusal_of(error):
        return refusal.at(where)
    if wrong := _STATEFUL_RULE_ERROR.search(str(error)):
        return _stateful_rule_error(wrong, where)
    condition = _error_condition(error)
    text = _shorten(str(error))
    if "No space left on device" in str(error):
        return to_error(OSError(errno.ENOSPC, "No space left on device"), where=where)
    if of_jvm := _jvm_error(error, where):
        return of_jvm
    if not condition or condition.startswith(_FILE_CONDITIONS):
        unreached = object_stores.store_error_from_spark(str(error), where)
        if unreached is not None:
            return unreached
    if condition:
        return _spark_error(error, condition, text, where, spliced)
    what = f"{type(error).__name__}: {_first_cause(str(error))}"
    return WaterclockError("E790", what, where=where, why=_own_frames(error), transient=is_transient(error))


def _stateful_rule_error(wrong: re.Match[str], where: str) -> WaterclockError:
    """Build the error for an invalid result of a stateful rule."""
    return WaterclockError(
        "E716",
        wrong["what"],
        where=where,
        why=wrong["why"],
        fix="return state_rows and out_rows, lists of dicts with the columns that state_columns and columns declare",
    )


def _jvm_error(error: BaseException, where: str) -> WaterclockError | None:
    """Return the error for a JVM that has ended, or whose heap was full; None for any other error."""
    if _is_jvm_gone(error):
        return ended_jvm_error(error, where=where)
    if not any(words in str(error) for words in _OUT_OF_MEMORY):
        return None
    return WaterclockError(
        "E790",
        "the memory of Spark's driver is full",
        where=where,
        why=_with_inputs(
            error, "the JVM could not store the rows of a task, or a small table that a join needs as a whole"
        ),
        fix="increase `memory` below [spark] in waterclock.toml, or reduce the number of batches at a time (`pools`)",
        # Spark releases tables that it has broadcast by itself, soon after they are not used any more
        transient=_NO_BROADCAST in str(error),
    )


def ended_jvm_error(error: BaseException, *, where: str) -> WaterclockError:
    """Build the error for a batch or query whose JVM has ended. `error` is the exception that it raised."""
    return WaterclockError(
        _JVM_IS_GONE,
        "Spark's JVM has ended",
        where=where,
        why=_with_inputs(error, _shorten(_text_without_jvm(error)) or type(error).__name__),
        fix="`waterclock run` again: it makes the lost batches again. If this one fails again, its rows or files need "
        "more memory: increase `memory` below [spark], or split or correct its input",
        transient=True,
    )


def _with_inputs(error: BaseException, why: str) -> str:
    """Add the inputs that a batch was reading to the reason, since one of them may be too large when unpacked."""
    inputs = noted_inputs(error)
    return why if inputs is None else f"{why}; {inputs}"


def _text_without_jvm(error: BaseException) -> str:
    """Return the text of an exception. Empty for a Py4J exception whose text is in a JVM that has ended."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # published without types

    try:
        return str(error)
    except (OSError, Py4JError):
        return ""


def lost_spark(error: WaterclockError | None) -> bool:
    """Return whether an error means that Spark's JVM ended during a batch or query."""
    return error is not None and error.code == _JVM_IS_GONE


def add_batch_place(error: WaterclockError, table: str, where: str, declared: Place | None = None) -> WaterclockError:
    """Add the batch `where` to an error, next to the file or object that the error names. It is added only once.

    An error of a REST API also gets the place of the table's declaration, which contains the request.
    """
    if declared is not None and error.code.startswith(_API_CODES):
        where = f"{where}, {declared}"
    if error.where is not None and f"{table}@" not in error.where:
        error.where = f"{error.where} ({where})"
    return error.at(where)


def user_code_error(error: BaseException, *, where: str, file: Path, root: Path) -> WaterclockError:
    """Convert an exception of a user's Python code. It shows only frames of the project's own files, last first."""
    if isinstance(error, WaterclockError):
        return error.at(where)
    if refusal := refusal_of(error) or row_refusal_of(error):
        return refusal.at(where)
    if of_jvm := _jvm_error(error, where):
        return of_jvm
    frames = list_project_frames(error, root)
    lines = [f"{_frame_place(frame, root)} in {frame.name}: {frame.line}" for frame in reversed(frames[-_MOST_FRAMES:])]
    place = _frame_place(frames[-1], root) if frames else file.relative_to(root).as_posix()
    return WaterclockError(
        "E720",
        f"{type(error).__name__}: {_shorten(str(error))}",
        where=f"{place} ({where})",
        why="; called from ".join(lines) or None,
        fix=_suggestion(error, _error_condition(error) or ""),
        transient=is_transient(error),
    )


def _frame_place(frame: traceback.FrameSummary, root: Path) -> str:
    return f"{Path(frame.filename).relative_to(root).as_posix()}:{frame.lineno}"


def is_transient(error: BaseException) -> bool:
    """Return whether another try may succeed: after a conflict, a lost executor or a network error, not a wrong row."""
    if isinstance(error, WaterclockError):
        return error.transient
    condition = _error_condition(error) or ""
    if condition.startswith(_TRANSIENT_CONDITIONS):
        return True
    if condition:
        return False
    if object_stores.store_error_from_spark(str(error), "") is not None:
        return True
    words = str(error).lower()
    return isinstance(error, ConnectionError | TimeoutError) or any(word in words for word in _TRANSIENT_WORDS)


def _spark_error(
    error: BaseException, condition: str, text: str, where: str, spliced: SplicedQuery | None
) -> WaterclockError:
    place = where
    position = _error_position(error)
    if spliced is not None and position is not None:
        place = f"{spliced.place_of(*position)} ({where})"
    what = text.partition("] ")[2] or text
    what = _SPARKS_ADVICE.sub("", what.partition(" SQLSTATE")[0]).strip()
    return WaterclockError(
        "E730",
        what[:_MOST_WHY],
        where=place,
        why=f"Spark reports {condition}",
        fix=_suggestion(error, condition),
        transient=is_transient(error),
    )


def _suggestion(error: BaseException, condition: str) -> str | None:
    parameters: dict[str, str] = getattr(error, "getMessageParameters", dict)() or {}
    if "objectName" in parameters and "proposal" in parameters:
        known = [part.replace("`", "").strip() for part in parameters["proposal"].split(",")]
        more = ", ..." if len(known) >= _MOST_PROPOSED else ""  # Spark does not report whether there are more
        otherwise = f"known: {', '.join(known)}{more}"
        return did_you_mean(parameters["objectName"].replace("`", ""), known, otherwise=otherwise)
    if condition.startswith(("UNRESOLVED_ROUTINE", "UNRESOLVABLE_TABLE_VALUED_FUNCTION")):
        name = parameters.get("routineName") or parameters.get("name") or ""
        return did_you_mean(name.strip("`"), _functions())
    if condition.startswith("DATATYPE_MISMATCH.CAST") and '"VARIANT"' in str(error):
        return "key_of takes simple values: pass each value of a STRUCT, MAP or INTERVAL on its own"
    if condition.startswith(_NO_SQL_FUNCTION):
        return "compute it in an inner SELECT, and use its alias here"
    if condition.startswith(("DIVIDE_BY_ZERO", "CAST_INVALID_INPUT", "NUMERIC_VALUE_OUT_OF_RANGE")):
        return "use try_divide or try_cast if such rows are expected; the batch is not retried"
    return None


def _functions() -> list[str]:
    """Return the functions that a query may call: built-in ones, and Spark's functions that our parser knows."""
    from sqlglot import exp

    spark = (name.lower() for name in exp.FUNCTION_BY_NAME)
    return [*READS, *VALUES, *MARKS, *_CONDITION_FUNCTIONS, *FUNCTIONS, *spark]


def _error_condition(error: BaseException) -> str | None:
    getter = getattr(error, "getCondition", None)
    if getter is None:
        named = _IN_TEXT.search(str(error)) if type(error).__name__ == "Py4JJavaError" else None
        return None if named is None else named[1]
    try:
        found = getter()
    except Exception:  # noqa: BLE001 - a JVM that is gone cannot return its condition
        return None
    return found if isinstance(found, str) else None


def _error_position(error: BaseException) -> tuple[int, int] | None:
    match = _POSITION.search(str(error))
    return (int(match[1]), int(match[3]) + (match[2] == "pos")) if match else None


@dataclass(frozen=True, slots=True)
class FailedExpression:
    """An SQL expression that failed for a row: its text, and its line in the query that Spark ran, from 1."""

    text: str
    line: int


def failed_expression(error: BaseException) -> FailedExpression | None:
    """Return the expression that failed for a row, or None if Spark names none, or rejected the query itself."""
    position = _error_position(error)
    getter = getattr(error, "getQueryContext", None)
    if position is None or getter is None or type(error).__name__ in {"AnalysisException", "ParseException"}:
        return None
    try:
        texts = [context.fragment() for context in getter() or () if context.contextType().name == "SQL"]
    except Exception:  # noqa: BLE001 - a JVM that is gone cannot return it
        return None
    return FailedExpression(texts[0], position[0]) if texts and texts[0] else None


def _is_jvm_gone(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    if "SparkConnectException" in names and _SERVER_GONE.search(str(error)):
        return True
    if "ConnectionRefusedError" in names:  # any server may refuse: only a connection to the JVM uses Py4J
        return any("py4j" in Path(frame.filename).parts for frame in traceback.extract_tb(error.__traceback__))
    return "Py4JNetworkError" in names or _JVM_GONE.search(str(error)) is not None


def _first_cause(text: str) -> str:
    """Shorten a Java error to its first cause, which Java prints last, after Spark's own frames."""
    return _shorten(_JVM_CAUSE.findall(text)[-1] if _JVM_CAUSE.search(text) else text)


def _shorten(text: str) -> str:
    kept = _JVM_LINES.split(text, maxsplit=1)[0].strip()
    return kept if len(kept) <= _MOST_WHY else kept[: _MOST_WHY - 1] + "…"


def _own_frames(error: BaseException) -> str | None:
    frames = traceback.extract_tb(error.__traceback__)
    return f"raised in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else None
