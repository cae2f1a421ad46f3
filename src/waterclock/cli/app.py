"""Defines the `waterclock` command line: its groups of commands, and how their errors are printed."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from waterclock import __version__
from waterclock.cli.commands.access import access
from waterclock.cli.commands.alerts import alerts
from waterclock.cli.commands.audit import audit
from waterclock.cli.commands.backfill import backfill
from waterclock.cli.commands.branch import branch
from waterclock.cli.commands.check import check
from waterclock.cli.commands.close import close
from waterclock.cli.commands.diff import diff
from waterclock.cli.commands.drop import drop
from waterclock.cli.commands.edit import edit
from waterclock.cli.commands.erase import erase
from waterclock.cli.commands.files import files
from waterclock.cli.commands.init import init
from waterclock.cli.commands.ledger import ledger
from waterclock.cli.commands.lineage import lineage
from waterclock.cli.commands.maintain import maintain
from waterclock.cli.commands.model import model
from waterclock.cli.commands.openlineage import openlineage
from waterclock.cli.commands.pause import pause
from waterclock.cli.commands.pii import pii
from waterclock.cli.commands.plan import plan
from waterclock.cli.commands.promote import promote
from waterclock.cli.commands.query import query
from waterclock.cli.commands.rebuild import rebuild
from waterclock.cli.commands.receive import receive
from waterclock.cli.commands.recollect import recollect
from waterclock.cli.commands.recompute import recompute
from waterclock.cli.commands.release import release
from waterclock.cli.commands.replay import replay
from waterclock.cli.commands.reset import reset
from waterclock.cli.commands.resume import resume
from waterclock.cli.commands.retry import retry
from waterclock.cli.commands.revert import revert
from waterclock.cli.commands.run import run
from waterclock.cli.commands.runners import runners
from waterclock.cli.commands.session import session
from waterclock.cli.commands.show import show
from waterclock.cli.commands.skip import skip
from waterclock.cli.commands.spec import spec
from waterclock.cli.commands.status import status
from waterclock.cli.commands.token import token
from waterclock.cli.commands.trust import trust
from waterclock.cli.commands.ui import ui
from waterclock.cli.commands.warm import warm
from waterclock.cli.commands.withdraw import withdraw
from waterclock.cli.exit_codes import OF_ALL_COMMANDS, ExitCode
from waterclock.cli.other_tools import answer_to_command, answer_to_option
from waterclock.errors import WaterclockError
from waterclock.printable import escape_logs

PROGRAM = "waterclock"
_COMPLETE = "_WATERCLOCK_COMPLETE"
COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Declare": (init, check, spec),
    "Run": (
        plan,
        run,
        receive,
        backfill,
        retry,
        skip,
        release,
        close,
        recompute,
        replay,
        recollect,
        revert,
        withdraw,
        pause,
        resume,
        branch,
        promote,
    ),
    "Edit": (edit,),
    "Inspect": (status, alerts, show, query, diff, files, audit, lineage, pii, openlineage, model, runners, ui),
    "Maintain": (maintain, drop, erase, rebuild, reset, ledger, trust, token, session, access, warm),
}


class Commands(TyperGroup):
    """The group of all commands. It prints their errors and sets the exit code."""

    def main(self, *arguments: Any, **more: Any) -> Any:
        """Run a command line. Report a usage error as JSON if the command line contains --json."""
        given = more.get("args")
        if "--json" not in (sys.argv if given is None else given) or not more.get("standalone_mode", True):
            return super().main(*arguments, **more)
        try:
            code = super().main(*arguments, **more | {"standalone_mode": False})
        except typer.Abort:
            code = ExitCode.FAILED
        except Exception as error:
            if not _is_usage_error(error):
                raise
            from waterclock.cli.views.error_card import usage_json

            code = usage_json(error)
        sys.exit(code if isinstance(code, int) else ExitCode.DONE)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - signature of Typer
        """List the commands of each group with the first line of their help."""
        for heading, functions in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(each.__name__, _first_line(each)) for each in functions])

    def get_help_option(self, ctx: Any) -> Any:
        """Return the --help option. Its default is set to False, since converting a missing default loads pydantic."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command. For a command of another tool, fail and name the equivalent command of Waterclock."""
        answer = answer_to_command(args[0]) if args and args[0] not in self.commands else None
        if answer is not None:
            ctx.fail(answer)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. If it raises an error, print the error without a traceback and exit with a code."""
        from waterclock.cli.views.json import want_json

        escape_logs()
        want_json(value=False)  # a program may run several command lines
        try:
            return super().invoke(ctx)
        except WaterclockError as error:
            from waterclock.cli.views.error_card import fail

            raise typer.Exit(fail(error)) from error
        except (typer.Exit, typer.Abort, KeyboardInterrupt, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.params.get("traceback") or _is_usage_error(error):
                raise
            if isinstance(error, FileNotFoundError) and not _has_working_folder():
                from waterclock.cli.views.error_card import fail

                raise typer.Exit(fail(_no_working_folder_error())) from error
            from waterclock.cli.views.crash import report_defect

            raise typer.Exit(report_defect(error)) from error


def _has_working_folder() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _no_working_folder_error() -> WaterclockError:
    return WaterclockError(
        "E925",
        "the current folder does not exist any more",
        why="it was deleted or replaced after the shell entered it",
        fix="`cd` to a folder that exists, or to this one again if it was replaced",
    )


class Command(TyperCommand):
    """A command whose help shows its arguments as users write them, without their Python types."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options. An argument with a metavar is shown without its type."""
        params: list[Any] = super().get_params(ctx)
        for each in params:
            if each.param_type_name == "argument" and each.metavar is not None:
                each.display_type_rich = lambda ctx: ""  # noqa: ARG005 - signature of Typer
            if "get_runtime_param" not in vars(each):
                plain = _PlainArgument(each.type_descriptor.annotation, each.get_runtime_param)
                each.get_runtime_param = lambda plain=plain: plain
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. For an option of another tool, fail and name the equivalent option of Waterclock.

        For labels apart from their table, fail and name the one word that is expected.
        """
        given = [*args]
        try:
            return list(super().parse_args(ctx, args))
        except Exception as error:
            name = getattr(error, "option_name", None)
            answer = answer_to_option(name, ctx.info_name) if _is_usage_error(error) and name else None
            if _is_usage_error(error) and name is None:
                answer = self._labels_hint(ctx, given)
            if answer is not None:
                ctx.fail(answer)
            raise

    def _labels_hint(self, ctx: Any, given: list[str]) -> str | None:
        """Return a message for a table and its labels that are two words, where the command takes them as one."""
        arguments: list[Any] = [each for each in self.params if each.param_type_name == "argument"]
        if len(arguments) != 1 or not str(arguments[0].metavar).startswith("TABLE@"):
            return None
        try:
            values, extra, _ = self.make_parser(ctx).parse_args(args=given)
        except Exception:  # noqa: BLE001 - reported by the caller
            return None
        table = values.get(arguments[0].name)
        if not isinstance(table, str) or "@" in table or len(extra) != 1:
            return None
        return f"The table and its labels are one word: waterclock {ctx.info_name} {table}@{extra[0]}."


class _PlainArgument:
    """Converts arguments that are strings, paths or one of several words.

    Typer would do that with pydantic, which takes 50 ms to load.
    """

    def __init__(self, kind: Any, otherwise: Callable[[], Any]) -> None:
        self._kind, self._otherwise = kind, otherwise

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Convert a value of the command line. Values other than strings and readable paths are converted by Typer."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if self._kind is str and isinstance(value, str):
            return value
        if self._kind == list[str] and isinstance(value, tuple | list) and all(isinstance(each, str) for each in value):
            return list(value)
        if isinstance(self._kind, type) and issubclass(self._kind, StrEnum) and isinstance(value, str):
            return _parse_choice(self._kind, value, param, ctx)
        if self._kind is Path and isinstance(value, str | Path) and os.access(value, os.R_OK):
            return Path(value)
        return self._otherwise().coerce(value, param=param, ctx=ctx)


def _parse_choice(choices: type[StrEnum], value: str, param: Any, ctx: Any) -> StrEnum:
    """Return the choice that a text names. Raises a usage error with the most similar choice first."""
    found = next((each for each in choices if each.value == value), None)
    if found is None:
        from waterclock.similar_names import did_you_mean

        words = f"it is one of {', '.join(choices)}"
        if ctx.info_name == "branch":
            words += f"; `waterclock branch create {value}` creates a branch of this name"
        hint = did_you_mean(value, choices, otherwise=words)
        raise typer.BadParameter(f"{value!r} is unknown; {hint}", ctx=ctx, param=param)
    return found


def _version(value: bool) -> None:  # noqa: FBT001 - signature of Typer
    if value:
        typer.echo(__version__)
        raise typer.Exit


def _install_completion(ctx: typer.Context, param: typer.CallbackParam, value: bool) -> None:  # noqa: FBT001 - signature of Typer
    if value:
        from typer.completion import install_callback

        install_callback(ctx, param, value)


def _show_completion(ctx: typer.Context, param: typer.CallbackParam, value: bool) -> None:  # noqa: FBT001 - signature of Typer
    if value:
        from typer.completion import show_callback

        show_callback(ctx, param, value)


def _start(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", envvar="WATERCLOCK_TRACEBACK", help="Show tracebacks of defects.")
    ] = False,
    install_completion: Annotated[
        bool,
        typer.Option(
            "--install-completion",
            callback=_install_completion,
            is_eager=True,
            help="Install completion of commands, tables and environments for this shell.",
        ),
    ] = False,
    show_completion: Annotated[
        bool,
        typer.Option(
            "--show-completion",
            callback=_show_completion,
            is_eager=True,
            help="Print what --install-completion would install.",
        ),
    ] = False,
) -> None:
    """Declare time-labelled data flows, run them on Spark and Delta, and query the history of any table."""


app = typer.Typer(
    name=PROGRAM,
    cls=Commands,
    callback=_start,
    epilog=OF_ALL_COMMANDS,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,  # the options are declared above: Typer's own load Rich at every start
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 110},
)
for _functions in COMMANDS.values():
    for _function in _functions:
        app.command(_function.__name__, cls=Command)(_function)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. `argv` has no program name; the default is that of sys.argv."""
    gc.set_threshold(400_000, 20, 50)  # imports stay in memory: scanning them took a tenth of a short command
    atexit.register(_skip_final_gc)
    if _COMPLETE in os.environ:  # a shell asks for completions
        from typer.completion import completion_init  # type: ignore[attr-defined]  # Typer does not export it

        completion_init()
    try:
        app(args=None if argv is None else list(argv), prog_name=PROGRAM)
    except SystemExit as end:
        return _exit_code_of(end)
    return ExitCode.DONE


def _skip_final_gc() -> None:
    """Skip the final garbage collection of the process. In a large project it takes 10 % of a short command's time.

    DuckDB is the exception: its driver reports objects that are not freed as leaks, in 45 lines.
    """
    if "_duckdb" not in sys.modules:
        gc.freeze()


def _exit_code_of(end: SystemExit) -> int:
    if isinstance(end.code, int):
        return end.code
    return ExitCode.of_failure(end.code is not None)


def _first_line(function: Callable[..., None]) -> str:
    return (function.__doc__ or "").strip().partition("\n")[0]


def _is_usage_error(error: Exception) -> bool:
    """Return whether Typer prints the error itself, as it does for an unknown option or a bad argument."""
    return hasattr(error, "exit_code") and hasattr(error, "show")
