"""Describes the features of connection types, so that `check` validates statements without connecting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Batching, Mode, WindowSignal
from waterclock.flow.lookback_changes import ChangeReporting


@dataclass(frozen=True, slots=True)
class Option:
    """A valid option of a connection or unit. `kind` is 'text', 'number' or 'flag'; `choices` are the valid texts.

    `is_secret`: the value must be a secret, and a literal is refused (E333). `is_address`: the value must not contain a
    password (E333). `schemes`: the valid schemes of a URL, the usual one first; "" accepts a value without a scheme.
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
    """An invalid option or combination of options: the error's code, and the parts of its message.

    `option` is "" if several options are only invalid together.
    """

    code: str
    option: str
    what: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Driver:
    """The Python module that a connector imports, and the `package` or Waterclock `extra` that installs it."""

    module: str
    package: str = ""
    extra: str = ""


@dataclass(frozen=True, slots=True)
class DestinationNames:
    """The destinations that a publish to a connection type cannot use, and the names that mean the same place.

    - `reserved` maps regular expressions of destinations' paths, in lower case, to the reason for which they are used
      otherwise.
    - `spelling(path, options)` returns one path for all paths that can mean the same place, given the connection's
      options. None if every path is a place of its own.
    - `server(options)` returns one text for all connections to the same database, or None if it is not known. None if
      every connection is a system of its own.
    """

    reserved: Mapping[str, str] = field(default_factory=dict)
    spelling: Callable[[str, Mapping[str, Any]], str] | None = None
    server: Callable[[Mapping[str, Any]], str | None] | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The features that a connector type supports. Each connector module defines its `CAPABILITIES`.

    The option name `params.*` matches all options that start with `params.`.

    - `replaces_some`: a delivery can replace the rows that match a condition and keep all others (REPLACE WHERE).
    - `returns_unparsed_lines`: lines that cannot be parsed are returned as separate rows (EXPECT parsed()).
    - `origin_fields`: the origin columns that the source can provide for each row (`_source.file`).
    - `keeps_order`: a delivery sends rows in an order (APPEND ORDER BY).
    - `wrong_options(what, options, path)`: yields invalid combinations of options. `what` is "connection", "collect" or
      "publish", or for a collect with or without FOR EACH "each" or "whole". `path` is the path of the unit,
      empty for a connection. Secrets in the options are references.
    - `copies`: a collect with `format 'raw'` has one row per item of the source, and a publish with that format copies
      these items.
    - `reads_open_windows`: the ways to collect in which a window that is not over can be read, and read again
      (CONTINUOUS).
    - `seals`: the source has no clock, as a receiver; the run that collects it decides when a window is complete.
    - `each_parameters`: returns the columns that a unit's path and options contain as placeholders (FOR EACH). None if
      the connector does not support that.
    - `require_path`: raises an error for an invalid path to collect from, without connecting.
    - `driver`: the package required to open a connection; `check` reports a missing one.
    - `warning(folder, options, unit)`: returns the warning of `check` for a unit to collect from, or None, given the
      project's folder and the options of the connection.
    - `destination_names`: the reserved names of destinations, and the names that mean the same place.
    """

    type: str
    connection_options: Mapping[str, Option] = field(default_factory=dict)
    collect_options: Mapping[str, Option] = field(default_factory=dict)
    publish_options: Mapping[str, Option] = field(default_factory=dict)
    collects: frozenset[Batching] = frozenset()
    publishes: frozenset[Mode] = frozenset()
    takes_query: bool = False
    awaits: frozenset[WindowSignal] = frozenset()
    changes: ChangeReporting | None = None
    replaces_some: bool = False
    returns_unparsed_lines: bool = False
    origin_fields: frozenset[str] = frozenset()
    keeps_order: bool = False
    wrong_options: Callable[[str, Mapping[str, Any], str], Iterable[InvalidOption]] | None = None
    reads_open_windows: frozenset[Batching] = frozenset()
    seals: bool = False
    copies: bool = False
    each_parameters: Callable[[str, Mapping[str, Any]], tuple[str, ...]] | None = None
    require_path: Callable[[str], object] | None = None
    driver: Driver | None = None
    warning: Callable[[Path, Mapping[str, Any], Unit], InvalidOption | None] | None = None
    destination_names: DestinationNames = field(default_factory=DestinationNames)
