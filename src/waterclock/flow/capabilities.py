"""What a kind of connection can do, as data: `check` reads it without opening anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
class Capabilities:
    """What a connector type offers. Each connector module holds one as `CAPABILITIES`.

    `replaces_some`: a delivery may replace the rows of a condition and leave all others (REPLACE WHERE). `tells`: what
    it can tell of where each row came from (`_source.file`). `seals`: it is its own clock, and a run seals its windows.
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
    seals: bool = False
