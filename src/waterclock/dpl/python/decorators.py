"""The functions that declare statements in Python, such as `wc.collect` and `wc.transform`.

Each function records its arguments while a project's file is loaded; at other times it does nothing. The name of an
argument is the clause's words joined by `_`, with a trailing `_` if Python reserves the word (`from_`). Its value is
the clause's text, parsed by DPL's parser. Errors are reported by `check`, never raised here.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar, Unpack

from waterclock.dpl.python.argument_types import (
    CollectArguments,
    ConnectionArguments,
    FunctionArguments,
    GrantArguments,
    PublishArguments,
    StatefulArguments,
    TransformArguments,
    ViewArguments,
)
from waterclock.dpl.python.positions import CallSite, Positions, site_of
from waterclock.dpl.syntax.statements import StatementKind
from waterclock.flow.declarations import Secret

F = TypeVar("F", bound=Callable[..., Any])
_BOTH = ("every", "schedule", "delay", "zone", "start", "pool", "owner", "tags")


@dataclass(frozen=True, slots=True)
class StatefulCall:
    """The arguments of a call of `stateful`, for its state table if `is_state`, else for its table of output rows."""

    rows: object
    state: object
    key: object
    is_state: bool


@dataclass(slots=True, eq=False)
class Call:
    """A recorded call of a function that declares a statement, such as `wc.collect`.

    `function`: the decorated function, if the call is a decorator. `step`: the arguments of `stateful`.
    """

    kind: StatementKind
    name: object
    arguments: Mapping[str, object]
    site: CallSite
    function: object = None
    step: StatefulCall | None = None

    def written_name(self, argument: str) -> str:
        """Return an argument's name as the caller wrote it: for `columns` of a state table, `state_columns`."""
        is_of_state = self.step is not None and self.step.is_state and argument in {"columns", "was"}
        return f"state_{argument}" if is_of_state else argument


@dataclass(frozen=True, slots=True)
class ReadCall:
    """The arguments of a read function, such as `wc.table` or `wc.past`, which is the default of a parameter."""

    word: str
    table: object
    span: object = None
    site: CallSite | None = None
    hidden: object = False


@dataclass(frozen=True, slots=True)
class VariableCall:
    """The argument of `wc.var`, which is the default of a parameter."""

    name: object
    site: CallSite | None = None


class DataFrame:
    """Placeholder for PySpark's DataFrame in annotations, so that loading a flow does not import PySpark."""


@dataclass(slots=True)
class _Recorder:
    path: Path
    root: Path
    calls: list[Call] = field(default_factory=list)
    codes: dict[int, Positions] = field(default_factory=dict)


_recorder: ContextVar[_Recorder | None] = ContextVar("waterclock_recorder", default=None)


@contextmanager
def record_calls(path: Path, root: Path) -> Iterator[list[Call]]:
    """Record the calls that declare statements while the file at `path` runs; yield the list to which they are added.

    Calls that another file makes while it is imported are not recorded.
    """
    recorder = _Recorder(path, root)
    token = _recorder.set(recorder)
    try:
        yield recorder.calls
    finally:
        _recorder.reset(token)


def connection(name: str, **arguments: Unpack[ConnectionArguments]) -> None:
    """Declare a connection: CREATE CONNECTION.

    Args:
        name: The connection's name, by which sources and destinations are addressed.
        **arguments: The clauses: `type` and `options`, and `owner`, `tags`, `comment`. A value that depends on the
            environment, such as a path, is set in `waterclock.toml`; a secret is `wc.secret("name")`.

    Example:
        >>> wc.connection("till", type="sqlite", options={"path": "data/till.sqlite"})
    """
    _record_call(StatementKind.CONNECTION, name, arguments)


def collect(name: str, **arguments: Unpack[CollectArguments]) -> None:
    """Declare a collected table: COLLECT.

    Args:
        name: The table, as `schema.table`.
        **arguments: The clauses, each as its text in DPL: `from_` (the source), `columns`, `every`, `start`, `by`,
            `mode` and others; the reference of declarations in Python lists all of them.

    Example:
        >>> wc.collect("raw.returns", from_="shop.returns", columns="id BIGINT KEY, at TIMESTAMP, *", every="day",
        ...            start="2026-01-01", by="data time at", mode="append")
    """
    _record_call(StatementKind.COLLECT, name, arguments)


def view(name: str, **arguments: Unpack[ViewArguments]) -> None:
    """Declare a view: CREATE VIEW.

    Args:
        name: The view, as `schema.view`.
        **arguments: The clauses: `as_` (the query), `columns`, `shared`, and `owner`, `tags`, `comment`.

    Example:
        >>> wc.view("stg.large_orders", as_="SELECT * FROM raw.orders WHERE amount > 100")
    """
    _record_call(StatementKind.VIEW, name, arguments)


def publish(name: str, **arguments: Unpack[PublishArguments]) -> None:
    """Declare that a table is published: PUBLISH.

    Args:
        name: The table of the flow.
        **arguments: The clauses, each as its text in DPL: `to` (the destination), `mode`, `options` and others.

    Example:
        >>> wc.publish("raw.orders", to="reports.orders", mode="merge")
    """
    _record_call(StatementKind.PUBLISH, name, arguments)


def transform(name: str, **arguments: Unpack[TransformArguments]) -> Callable[[F], F]:
    """Declare a transformed table: TRANSFORM, by the query in `as_` or by the decorated function.

    Args:
        name: The table, as `schema.table`.
        **arguments: The clauses, each as its text in DPL: `as_` (the query), `every`, `mode`, `expect` and others.
            `when` is a list of conditions with a query each; `as_` is then the query for all other labels.

    Returns:
        A decorator for the function that makes the rows, if there is no query. The parameters of the function declare
        its inputs. It is called once for each batch, and returns a DataFrame. The decorator returns it unchanged.

    Example:
        >>> wc.transform("marts.sums", partitioned=True,
        ...              as_="SELECT sum(amount) AS total FROM raw.orders WHERE timelabel = TIMELABEL()")
        <function ...>
        >>> @wc.transform("marts.customers", mode="replace")
        ... def customers(orders: wc.DataFrame = wc.history("raw.orders")) -> wc.DataFrame:
        ...     return orders.groupBy("customer").sum("amount")
    """
    return _decorator(_record_call(StatementKind.TRANSFORM, name, arguments))


def stateful(
    name: str, *, rows: object = None, state: object = None, key: object = None, **arguments: Unpack[StatefulArguments]
) -> Callable[[F], F]:
    """Declare a transform that keeps a state: two tables, `name` for the output rows and `state` for the state.

    Args:
        name: The table of output rows.
        rows: The table to read, window by window.
        state: The table of the state.
        key: The columns of the key, separated by commas.
        **arguments: The clauses of both tables, each as its text in DPL. `columns` and `state_columns` declare all
            columns with their types.

    Returns:
        A decorator for the function `step(key, state_rows, rows, window) -> (state_rows, out_rows)`. It is called for
        each key with the rows in the window and the state before the window, each as a list of dicts.

    Example:
        >>> @wc.stateful("marts.first_orders", rows="raw.orders", state="marts.seen", key="customer", every="day",
        ...              columns="customer STRING, id BIGINT", state_columns="customer STRING, orders BIGINT")
        ... def first_orders(key, state_rows, rows, window):
        ...     known = state_rows[0]["orders"] if state_rows else 0
        ...     first = [] if known else [{"customer": key["customer"], "id": min(row["id"] for row in rows)}]
        ...     return [{"customer": key["customer"], "orders": known + len(rows)}], first
    """
    own: dict[str, Any] = dict(arguments)
    of_state = {"columns": own.pop("state_columns", None), "was": own.pop("state_was", None)}
    of_state |= {word: own[word] for word in _BOTH if word in own}
    calls = [
        _record_call(StatementKind.TRANSFORM, name, {"partitioned": True, **own}),
        _record_call(StatementKind.TRANSFORM, state, {"regular": True, **of_state}) if state else None,
    ]
    for is_state, call in enumerate(calls):
        if call is not None:
            call.step = StatefulCall(rows, state, key, bool(is_state))
    keepers = [_decorator(call) for call in calls]

    def keep(found: F) -> F:
        for each in keepers:
            each(found)
        return found

    return keep


def function(name: str, **arguments: Unpack[FunctionArguments]) -> Callable[[F], F]:
    """Declare a function for queries: CREATE FUNCTION, by the expression in `return_` or by the decorated function.

    Types that `parameters` and `returns` omit follow from the annotations: bool is BOOLEAN, int BIGINT, float DOUBLE,
    str STRING, bytes BINARY, date DATE, datetime TIMESTAMP. All other types, including Decimal, must be declared.

    Args:
        name: The function's name in queries.
        **arguments: `parameters` and `returns`, their types; `return_`, the expression, if no function is decorated.

    Returns:
        A decorator, which returns the function unchanged.

    Example:
        >>> wc.function("euros", parameters="cents BIGINT", returns="DECIMAL(16,2)", return_="cents / 100")
        <function ...>
        >>> @wc.function("initials")
        ... def initials(name: str) -> str:
        ...     return "".join(word[0] for word in name.split())
    """
    return _decorator(_record_call(StatementKind.FUNCTION, name, arguments))


def grant(right: str, **arguments: Unpack[GrantArguments]) -> None:
    """Declare who may read which rows and columns, or edit and approve rows of which forms: GRANT.

    Args:
        right: The right: `select`, `edit` or `approve`.
        **arguments: The parts, each as its text in DPL: `on` (the tables), `to` (roles or users), `columns` with masks,
            and `where`, the condition on rows.

    Example:
        >>> wc.grant("select", on="raw.orders", to="(analyst)", columns="id, customer AS (mask_text(customer))",
        ...          where="customer = USER('customer')")
    """
    _record_call(StatementKind.GRANT, right, arguments)


def secret(name: str) -> Secret:
    """Return a reference to a secret, as the value of a connection's option.

    Args:
        name: The secret's name. Its value is read where it is used, and is never stored.

    Returns:
        The reference.

    Example:
        >>> options = {"url": "https://bank.example/v1", "auth.token": wc.secret("bank_token")}
        >>> wc.connection("bank", type="rest", options=options)
    """
    return Secret(name)


def table(name: str, *, hidden: object = False) -> Any:
    """Read a table or view, like `SELECT *` from it.

    Args:
        name: The table or view.
        hidden: True includes the table's HIDDEN columns.

    Returns:
        The input, as the default of a parameter of a decorated function, which gets it as a DataFrame.

    Example:
        >>> @wc.transform("marts.now", partitioned=True)
        ... def made(rows: wc.DataFrame = wc.table("raw.orders")) -> wc.DataFrame:
        ...     return rows.select("customer", "amount")
    """
    return _read("PLAIN", name, hidden=hidden)


def past(name: str, span: str, *, hidden: object = False) -> Any:
    """Read a table from a span before the window's end up to that end: PAST(name, 'span').

    Args:
        name: The table, a partitioned one.
        span: The length of the span, such as `7 days`.
        hidden: True includes the table's HIDDEN columns.

    Returns:
        The input, as the default of a parameter of a decorated function, which gets it as a DataFrame.

    Example:
        >>> @wc.transform("marts.week", partitioned=True)
        ... def made(rows: wc.DataFrame = wc.past("raw.orders", "7 days")) -> wc.DataFrame:
        ...     return rows.select("customer", "amount")
    """
    return _read("PAST", name, span, hidden=hidden)


def history(name: str, *, hidden: object = False) -> Any:
    """Read the whole history of a table before the window's end: HISTORY(name).

    Args:
        name: The table.
        hidden: True includes the table's HIDDEN columns.

    Returns:
        The input, as the default of a parameter of a decorated function, which gets it as a DataFrame.

    Example:
        >>> @wc.transform("marts.all")
        ... def made(rows: wc.DataFrame = wc.history("raw.orders")) -> wc.DataFrame:
        ...     return rows.select("customer", "amount")
    """
    return _read("HISTORY", name, hidden=hidden)


def previous(name: str, *, hidden: object = False) -> Any:
    """Read a table as it was one window before: PREVIOUS(name).

    Args:
        name: The table, which may be the declared one.
        hidden: True includes the table's HIDDEN columns.

    Returns:
        The input, as the default of a parameter of a decorated function, which gets it as a DataFrame.

    Example:
        >>> @wc.transform("marts.day_before", partitioned=True)
        ... def made(rows: wc.DataFrame = wc.previous("raw.orders")) -> wc.DataFrame:
        ...     return rows.select("customer", "amount")
    """
    return _read("PREVIOUS", name, hidden=hidden)


def latest(name: str, *, hidden: object = False) -> Any:
    """Read the newest settled state of a table: LATEST(name).

    Args:
        name: The table.
        hidden: True includes the table's HIDDEN columns.

    Returns:
        The input, as the default of a parameter of a decorated function, which gets it as a DataFrame.

    Example:
        >>> @wc.transform("marts.newest", partitioned=True, every="day")
        ... def made(rows: wc.DataFrame = wc.latest("raw.orders")) -> wc.DataFrame:
        ...     return rows.select("customer", "amount")
    """
    return _read("LATEST", name, hidden=hidden)


def until(name: str, span: str, *, hidden: object = False) -> Any:
    """Read a table from a span before the window to a span after it: UNTIL(name, 'span').

    Args:
        name: The table.
        span: The length of the span, such as `2 days`.
        hidden: True includes the table's HIDDEN columns.

    Returns:
        The input, as the default of a parameter of a decorated function, which gets it as a DataFrame.

    Example:
        >>> @wc.transform("marts.with_late", partitioned=True)
        ... def made(rows: wc.DataFrame = wc.until("raw.orders", "2 days")) -> wc.DataFrame:
        ...     return rows.select("customer", "amount")
    """
    return _read("UNTIL", name, span, hidden=hidden)


def flat(name: str, *, exact: object = False, hidden: object = False) -> Any:
    """Read a table joined with all parents that it references: FLAT(name).

    Args:
        name: The table, whose columns declare REFERENCES.
        exact: True splits the versions of a TEMPORAL table at every change of a parent: FLAT(name, 'exact').
        hidden: True includes the table's HIDDEN columns.

    Returns:
        The input, as the default of a parameter of a decorated function, which gets it as a DataFrame.

    Example:
        >>> @wc.transform("marts.flat", partitioned=True)
        ... def made(rows: wc.DataFrame = wc.flat("raw.orders")) -> wc.DataFrame:
        ...     return rows.select("customer", "amount")
    """
    return _read("FLAT", name, exact, hidden=hidden)


def var(name: str) -> Any:
    """Return a variable of the project file's [vars] or of the environment's: `:name`.

    Args:
        name: The variable's name.

    Returns:
        The variable, as the default of a parameter of a decorated function, which gets its value.

    Example:
        >>> @wc.transform("marts.large", partitioned=True)
        ... def large(orders: wc.DataFrame = wc.table("raw.orders"), least=wc.var("least")) -> wc.DataFrame:
        ...     return orders.where(orders.amount >= least)
    """
    return VariableCall(name, _call_site())


def _read(word: str, name: object, span: object = None, *, hidden: object = False) -> ReadCall:
    return ReadCall(word, name, span, _call_site(), hidden)


def _record_call(kind: StatementKind, name: object, arguments: Mapping[str, Any]) -> Call | None:
    recorder = _recorder.get()
    if recorder is None or not _is_own(recorder):
        return None
    call = Call(kind, name, dict(arguments), _site_in(recorder))
    recorder.calls.append(call)
    return call


def _decorator(call: Call | None) -> Callable[[F], F]:
    def keep(found: F) -> F:
        if call is not None:
            call.function = found
        return found

    return keep


def _frames() -> Iterator[FrameType]:
    """Yield the frames of all callers, nearest first, except frames of this module."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_filename != __file__:
            yield frame
        frame = frame.f_back


def _call_site() -> CallSite | None:
    """Return the position from which this module was called; None while no project file is loaded."""
    recorder = _recorder.get()
    return None if recorder is None else _site_in(recorder)


def _site_in(recorder: _Recorder) -> CallSite:
    """Return the position of the nearest caller in the project's own files, or of the nearest caller if none is."""
    root = f"{recorder.root}{os.sep}"
    frames = list(_frames())
    names = [(one, one.f_code.co_filename) for one in frames]
    own = (one for one, name in names if name.startswith(root) and "site-packages" not in name)
    return site_of(next(own, frames[0]), recorder.codes)


def _is_own(recorder: _Recorder) -> bool:
    """Return whether the recorded file makes the current call itself, and not a module that it imports."""
    modules = (one.f_code.co_filename for one in _frames() if one.f_code.co_name == "<module>")
    nearest = next((file for file in modules if not file.startswith("<")), None)
    return nearest == str(recorder.path)


def argument_word(argument: str) -> str:
    """Return the words of a clause for an argument's name: `from_` → `FROM`, `max_lateness` → `MAX LATENESS`."""
    return argument.removesuffix("_").replace("_", " ").upper()
