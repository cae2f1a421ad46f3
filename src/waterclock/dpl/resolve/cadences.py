"""Resolves the cadence and START of each table from its statement, its inputs, or the project's defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial

from waterclock.dpl.config.model import Config
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.cursor import ensure_place, parse_at
from waterclock.dpl.syntax.source_text import Span
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Read
from waterclock.flow.enums import Batching, Kind, ReadKind
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.cron import compile_cron
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.instant import utc_of
from waterclock.timelabel.label import label_of
from waterclock.timelabel.period import Period, TimeUnit, parse_period
from waterclock.timelabel.zone import local_text, nominal_zone, parse_instant

_NOTHING = timedelta(0)


class Cadences:
    """Resolves the cadences of tables, inputs first. A table without EVERY gets the common cadence of its inputs."""

    def __init__(self, drafts: Mapping[str, UnresolvedTable], config: Config, errors: list[WaterclockError]) -> None:
        self.drafts = drafts
        self.config = config
        self.errors = errors
        self._in_progress: set[str] = set()
        self._done: set[str] = set()

    def resolve_all(self) -> None:
        """Set the cadence and the start of every table, as far as they can be determined; add errors to `errors`."""
        for name in self.drafts:
            self._resolve(name)
        for draft in self.drafts.values():
            self._guard(partial(self._check_inherited_cadence, draft))
        for draft in self.drafts.values():
            if draft.cadence is not None:
                self._guard(partial(resolve_start, draft, self.config))

    def _resolve(self, name: str) -> None:
        if name in self._done or name in self._in_progress:
            return
        self._in_progress.add(name)
        draft = self.drafts[name]
        for read in draft.declared.reads:
            if read.table in self.drafts:
                self._resolve(read.table)
        self._guard(partial(self._resolve_cadence, draft))
        self._in_progress.discard(name)
        self._done.add(name)

    def _guard(self, resolve: Callable[[], None]) -> None:
        try:
            resolve()
        except WaterclockError as error:
            self.errors.append(error)

    def _resolve_cadence(self, draft: UnresolvedTable) -> None:
        statement = draft.statement
        every, schedule = statement.value("EVERY", Period), statement.value("SCHEDULE", str)
        declared_delay = statement.value("DELAY", Duration)
        if every is not None and schedule is not None:
            raise draft.at("SCHEDULE").refuse(
                "E207",
                "EVERY and SCHEDULE both set the cadence",
                fix="remove one: a SCHEDULE is another way to write EVERY",
            )
        if schedule is not None and declared_delay is not None:
            raise draft.at("DELAY").refuse(
                "E207", "SCHEDULE and DELAY both set a delay", fix="leave DELAY out, or use EVERY"
            )
        delay = parse_at(draft.at("DELAY"), declared_delay.to_timedelta) if declared_delay else _NOTHING
        if schedule is not None:
            zone = self._find_zone(draft, is_calendar=True)
            cadence = parse_at(draft.at("SCHEDULE"), lambda: compile_cron(schedule, zone))
            draft.cadence = replace(cadence, delay=max(cadence.delay, self._longest_until(draft)))
            return
        period = every if every is not None else self._find_period(draft)
        if period is None:
            return
        zone = self._find_zone(draft, is_calendar=period.unit is not TimeUnit.MINUTE)
        delay = max(delay, self._longest_until(draft))
        draft.cadence = parse_at(draft.at("ZONE"), lambda: Cadence(period, delay, zone))

    def _longest_until(self, draft: UnresolvedTable) -> timedelta:
        """Return the longest span of a table's UNTIL reads. A batch is due that long after its window, or later."""
        if draft.statement.clause("CLOSE WHEN"):  # the window reads up to the tick that closes it
            return _NOTHING
        spans = (read.span for read in draft.declared.reads if read.kind is ReadKind.UNTIL)
        return max((parse_at(draft.span, span.to_timedelta) for span in spans if span is not None), default=_NOTHING)

    def _find_period(self, draft: UnresolvedTable) -> Period | None:
        if draft.statement.has_failed("EVERY") or draft.statement.has_failed("SCHEDULE"):
            return None
        if draft.kind is Kind.COLLECT and not _follows_for_each_table(draft):
            return self._default_period(draft)
        inputs = self._inputs(draft)
        periods = {cadence.period for cadence, _ in inputs}
        if len(periods) == 1:
            return next(iter(periods))
        if draft.is_incomplete or any(self._is_unknown(read) for read in self._list_cadence_reads(draft)):
            return None  # the error of the input is reported at the input
        if not inputs:
            if draft.declared.query is None and draft.declared.function is None and not draft.declared.reads:
                return None
            raise draft.span.refuse(
                "E228",
                f"{draft.name} has no EVERY",
                why="it reads no table whose cadence it could take"
                + ("; LATEST and a table's own PREVIOUS have no cadence to take" if draft.declared.reads else ""),
                fix="add EVERY, as in EVERY DAY",
            )
        raise _differing_periods_error(draft, inputs)

    def _check_inherited_cadence(self, draft: UnresolvedTable) -> None:
        """Check again a cadence that is taken from inputs: in a cycle of reads, some inputs had no cadence before."""
        is_given = draft.kind is Kind.COLLECT and not _follows_for_each_table(draft)
        if is_given or draft.statement.clause("EVERY") or draft.statement.clause("SCHEDULE"):
            return
        if draft.cadence is not None:
            inputs = self._inputs(draft)
            if any(cadence.period != draft.cadence.period for cadence, _ in inputs):
                raise _differing_periods_error(draft, inputs)
        elif not self.errors:
            raise draft.span.refuse(
                "E228",
                f"{draft.name} has no EVERY",
                why="its inputs take their cadence from their own inputs, in a circle",
                fix="add EVERY, as in EVERY DAY",
            )

    def _default_period(self, draft: UnresolvedTable) -> Period | None:
        default = self.config.default(draft.name, "every")
        if default is None and "every" in self.config.misspelt:
            return None
        if default is None:
            raise draft.span.refuse(
                "E228",
                f"{draft.name} has no EVERY",
                why="a COLLECT has no input table whose cadence it could take",
                fix="add EVERY, as in EVERY DAY",
            )
        value, span = default
        period: Period = parse_at(span, lambda: parse_period(str(value)))
        return period

    def _list_cadence_reads(self, draft: UnresolvedTable) -> list[Read]:
        return [read for read in draft.declared.reads if _gives_cadence(read, draft.name)]

    def _is_unknown(self, read: Read) -> bool:
        other = self.drafts.get(read.table)
        return other is None or other.cadence is None

    def _inputs(self, draft: UnresolvedTable) -> list[tuple[Cadence, str]]:
        found: dict[str, Cadence] = {}
        for read in self._list_cadence_reads(draft):
            other = self.drafts.get(read.table)
            if other is not None and other.cadence is not None:
                found.setdefault(read.table, other.cadence)
        return [(cadence, name) for name, cadence in found.items()]

    def _find_zone(self, draft: UnresolvedTable, *, is_calendar: bool) -> str:
        declared = draft.statement.value("ZONE", str)
        if declared is not None:
            return declared
        if draft.kind is Kind.COLLECT and not _follows_for_each_table(draft):
            return default_zone(draft.name, self.config)
        zones = {cadence.zone: name for cadence, name in self._inputs(draft)}
        if len(zones) == 1:
            return next(iter(zones))
        if not zones:
            return default_zone(draft.name, self.config)
        if not is_calendar:
            return "UTC"
        zone_texts = ", ".join(f"{name} {zone}" for zone, name in zones.items())
        raise draft.span.refuse(
            "E228",
            f"{draft.name} has no ZONE, and the zones of its inputs differ",
            why=f"it reads {zone_texts}",
            fix=f"add ZONE '{next(iter(zones))}'",
        )


def _differing_periods_error(draft: UnresolvedTable, inputs: list[tuple[Cadence, str]]) -> WaterclockError:
    listed = ", ".join(f"{name} {cadence.period}" for cadence, name in inputs)
    longest = max((cadence.period for cadence, _ in inputs), key=lambda period: period.minutes)
    return draft.span.refuse(
        "E228",
        f"{draft.name} has no EVERY, and the cadences of its inputs differ",
        why=f"it reads {listed}; a new input must not change the cadence unnoticed",
        fix=f"add EVERY {longest}",
    )


def _follows_for_each_table(draft: UnresolvedTable) -> bool:
    """Return whether a collect has FOR EACH: its windows are then those of the FOR EACH table."""
    return draft.statement.clause("FOR EACH") is not None or "FOR EACH" in draft.statement.failed


def _gives_cadence(read: Read, own: str) -> bool:
    if read.kind is ReadKind.LATEST:
        return False
    return read.table != own


def default_zone(table: str, config: Config) -> str:
    """Return the default time zone of a table from the project file; UTC if it has none."""
    default = config.default(table, "zone")
    if default is None:
        return "UTC"
    zone, span = str(default[0]), default[1]
    parse_at(span, lambda: nominal_zone(zone))
    return zone


def resolve_start(draft: UnresolvedTable, config: Config) -> None:
    """Set the START of a table. A declared START must be a window boundary; a default is rounded up to the next one.

    The default applies to collects and to transforms without inputs. Other tables without START start with the first
    window whose inputs all exist; the planner determines it.
    """
    cadence = draft.cadence
    if cadence is None:
        return
    declared = draft.statement.value("START", str)
    if declared is not None:
        span = draft.at("START")
        start = parse_at(span, lambda: parse_instant(declared, cadence.zone))
        if not cadence.is_boundary(start):
            raise _start_error(span, declared, start, cadence)
        draft.declared = replace(draft.declared, start=start)
        return
    begins_alone = (draft.kind is Kind.COLLECT and not _follows_for_each_table(draft)) or (
        draft.kind is Kind.TRANSFORM and not draft.declared.reads
    )
    # the log of a source contains no changes before its first snapshot
    is_log = draft.declared.source is not None and draft.declared.source.batching is Batching.CHANGES
    may_default = begins_alone and not is_log and not draft.is_incomplete
    default = config.default(draft.name, "start") if may_default else None
    if default is not None:
        draft.declared = replace(draft.declared, start=cadence.ceil(_instant(default[0], cadence.zone, default[1])))
    elif draft.declared.source is not None and draft.declared.source.batching in {Batching.DATA_TIME, Batching.LABELS}:
        if draft.statement.has_failed("START") or "start" in config.misspelt:
            return
        raise draft.span.refuse(
            "E120",
            f"{draft.name} has no START",
            why="BY DATA TIME also collects past windows; START is the first one",
            fix="add START, as in START '2018-01-01', or start below [defaults] in waterclock.toml",
        )


def _instant(value: object, zone: str, span: Span) -> datetime:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return utc_of(value)
    text = value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        text = value.isoformat()
    start: datetime = parse_at(span, lambda: parse_instant(text, zone))
    return start.astimezone(UTC) if start.tzinfo is not UTC else start


def _start_error(span: Span, written: str, start: datetime, cadence: Cadence) -> WaterclockError:
    near: Iterable[datetime] = (cadence.floor(start), cadence.next(start))
    names = [f"'{local_text(t, cadence.zone)[:16]}'" if cadence.zone != "UTC" else f"'{label_of(t)}'" for t in near]
    return ensure_place(
        span.refuse(
            "E121",
            f"no window starts at {written}",
            why=f"the cadence is {cadence}",
            fix=f"write the nearest start: {' or '.join(names)}",
        ),
        span,
    )
