"""What a kind of connection can do, as data: `check` reads it without opening anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waterclock.flow.choices import Batching, Mode, Sign
from waterclock.flow.declarations import Unit
from waterclock.flow.lookbacks import Tells


@dataclass(frozen=True, slots=True)
class Option:
    """A legal option of a connection or unit. `kind` is 'text', 'number' or 'flag'; `choices` are the legal texts.

    `is_secret`: `check` refuses a value that is written out, with the connector's `secret_code`. `is_address`: it
    refuses a value with a password in it.
    """

    kind: str = "text"
    is_required: bool = False
    choices: tuple[str, ...] = ()
    help: str = ""
    is_secret: bool = False
    is_address: bool = False


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with some options together: its code, at which option, and the parts of an error.

    `option` is empty where one is missing.
    """

    code: str
    option: str
    what: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Driver:
    """The Python module that a connector imports to reach its systems.

    `package` installs it, or `extra` of Waterclock for its own connectors.
    """

    module: str
    package: str = ""
    extra: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a connector type offers. Each connector module holds one as `CAPABILITIES`.

    An option `params.*` is any that begins with `params.`. `replaces_some`: a delivery may replace the rows of a
    condition and leave all others (REPLACE WHERE). `tells_unread`: lines that cannot be read as their format come as
    rows of their own (EXPECT parsed()). `tells`: what it can tell of where each row came from (`_source.file`).
    `keeps_order`: it brings rows in an order (APPEND ORDER BY). `wrong_options`: finds what does not go together in the
    options of a `connection`, or of a `collect` or a `publish` with the path of their unit; secrets are pointers there.
    `copies`: a collect with `format 'raw'` has a row for each of its items, and a publish with that copies these.
    `seals`: it is its own clock, and a run seals its windows. `each_parameters`: the columns that the path of a unit
    and its options name of the row that it is asked for (FOR EACH), where it can be asked so. `require_path`: raises
    what is wrong with the path of a unit to collect from, as far as it shows without the system. `driver`: what has to
    be installed before a connection is opened; `check` reports one that is missing. `warning`: returns the warning of
    `check` for a unit to collect from, by the project's folder and the options of the connection.
    """

    type: str
    connection_options: Mapping[str, Option] = field(default_factory=dict)
    collect_options: Mapping[str, Option] = field(default_factory=dict)
    publish_options: Mapping[str, Option] = field(default_factory=dict)
    collects: frozenset[Batching] = frozenset()
    publishes: frozenset[Mode] = frozenset()
    takes_query: bool = False
    awaits: frozenset[Sign] = frozenset()
    changes: Tells | None = None
    replaces_some: bool = False
    tells_unread: bool = False
    tells: frozenset[str] = frozenset()
    keeps_order: bool = False
    wrong_options: Callable[[str, Mapping[str, Any], str], Iterable[Wrong]] | None = None
    seals: bool = False
    copies: bool = False
    each_parameters: Callable[[str, Mapping[str, Any]], tuple[str, ...]] | None = None
    require_path: Callable[[str], object] | None = None
    driver: Driver | None = None
    warning: Callable[[Path, Mapping[str, Any], Unit], Wrong | None] | None = None
    secret_code: str = "E313"  # noqa: S105 - the code of an error
