"""Describes what a type of connection supports, so that `check` can validate statements without a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Batching, Mode, Sign
from waterclock.flow.lookbacks import ChangeReporting


@dataclass(frozen=True, slots=True)
class Option:
    """A valid option of a connection or unit. `kind` is 'text', 'number' or 'flag'; `choices` are the valid texts.

    `is_secret`: `check` refuses a literal value. `is_address`: `check` refuses a value that contains a password. Both
    raise E333. `schemes`: the valid beginnings of a URL, the usual one first; "" for a value without a scheme.
    """

    kind: str = "text"
    is_required: bool = False
    choices: tuple[str, ...] = ()
    help: str = ""
    is_secret: bool = False
    is_address: bool = False
    schemes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InvalidOption:
    """An invalid option or combination of options: the error's code, the option or "", and the parts of the message."""

    code: str
    option: str
    what: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Driver:
    """The Python module that a connector imports, installed by `package` or by Waterclock's `extra`."""

    module: str
    package: str = ""
    extra: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The features that a connector type supports. Each connector module defines this as `CAPABILITIES`.

    An option `params.*` matches all options that start with `params.`.

    - `replaces_some`: a delivery may replace the rows that match a condition and keep all others (REPLACE WHERE).
    - `tells_unread`: lines that cannot be parsed are returned as rows of their own (EXPECT parsed()).
    - `tells`: the origin columns that the source can provide for each row (`_source.file`).
    - `keeps_order`: a delivery sends rows in an order (APPEND ORDER BY).
    - `wrong_options`: finds invalid combinations in the options of a `connection`, or of a `collect` or a `publish`
      with the path of their unit. Secrets are references there.
    - `copies`: a collect with `format 'raw'` has one row per item of the source, and a publish with that format copies
      these items.
    - `seals`: the source has no clock of its own; a run decides when a window is complete, as for a receiver.
    - `each_parameters`: returns the columns that a unit's path and options contain as placeholders (FOR EACH). None if
      the connector does not support that.
    - `require_path`: raises an error for an invalid path to collect from, as far as the path alone shows it.
    - `driver`: the package required to open a connection; `check` reports a missing one.
    - `warning`: returns the warning of `check` for a unit to collect from, given the project's folder and the options
      of the connection.
    """

    type: str
    connection_options: Mapping[str, Option] = field(default_factory=dict)
    collect_options: Mapping[str, Option] = field(default_factory=dict)
    publish_options: Mapping[str, Option] = field(default_factory=dict)
    collects: frozenset[Batching] = frozenset()
    publishes: frozenset[Mode] = frozenset()
    takes_query: bool = False
    awaits: frozenset[Sign] = frozenset()
    changes: ChangeReporting | None = None
    replaces_some: bool = False
    tells_unread: bool = False
    tells: frozenset[str] = frozenset()
    keeps_order: bool = False
    wrong_options: Callable[[str, Mapping[str, Any], str], Iterable[InvalidOption]] | None = None
    seals: bool = False
    copies: bool = False
    each_parameters: Callable[[str, Mapping[str, Any]], tuple[str, ...]] | None = None
    require_path: Callable[[str], object] | None = None
    driver: Driver | None = None
    warning: Callable[[Path, Mapping[str, Any], Unit], InvalidOption | None] | None = None
