"""What a kind of connection can do, as data: `check` reads it without opening anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from waterclock.flow.choices import Batching, Mode, Sign
from waterclock.flow.lookbacks import Tells


@dataclass(frozen=True, slots=True)
class Option:
    """A legal option of a connection or unit. `kind` is 'text', 'number' or 'flag'; `choices` are the legal texts."""

    kind: str = "text"
    is_required: bool = False
    choices: tuple[str, ...] = ()
    help: str = ""


@dataclass(frozen=True, slots=True)
class Objection:
    """What a connector has against options of a unit, each legal by itself. `option` is empty where one is missing."""

    option: str
    code: str
    what: str
    why: str
    fix: str


def _none(options: Mapping[str, Any], path: str) -> Iterable[Objection]:
    del options, path
    return ()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a connector type offers. Each connector module holds one as `CAPABILITIES`.

    `replaces_some`: a delivery may replace the rows of a condition and leave all others (REPLACE WHERE). `tells`: what
    it can tell of where each row came from (`_source.file`). `objections` and `publish_objections` look at the options
    of a unit with its path, where each by itself is legal: they load nothing.
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
    tells: frozenset[str] = frozenset()
    objections: Callable[[Mapping[str, Any], str], Iterable[Objection]] = _none
    publish_objections: Callable[[Mapping[str, Any], str], Iterable[Objection]] = _none
