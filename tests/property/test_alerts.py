"""Random troubles, quiet hours, repeats and lost targets: who is told of what, against plain counting."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.alerts.decisions import APART, MOST, WITHIN, AlertInput, decide, is_meant
from waterclock.batches.alerts import Acknowledged, Alert, Message, MessageCause, RootCause, StoredAlerts, TroubleKind
from waterclock.flow.alerts import Alerting, AlertRule, QuietHours, Severity, Target, TargetKind

START = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = ("raw.a", "raw.b", "marts.c")
TARGETS = ("ops", "mail")
KINDS = (TroubleKind.DAMAGED, TroubleKind.FAILED, TroubleKind.WARNED)

tables = st.frozensets(st.sampled_from(TABLES), min_size=1)
rules = st.builds(
    AlertRule,
    name=st.just("r"),
    tables=tables,
    severity=st.sampled_from(Severity),
    targets=st.sets(st.sampled_from(TARGETS), min_size=1).map(lambda names: tuple(sorted(names))),
    repeat=st.sampled_from([None, timedelta(hours=1), timedelta(hours=7)]),
    quiet=st.sampled_from([None, QuietHours(22 * 60, 7 * 60, "Europe/Berlin"), QuietHours(60, 13 * 60, "UTC")]),
)
causes = st.builds(
    lambda key, kind, table, held: RootCause(
        key, kind, key, {table: frozenset({START})}, blocks={} if held is None else {held: 3}
    ),
    st.sampled_from("abcdefgh"),
    st.sampled_from(KINDS),
    st.sampled_from(TABLES),
    st.sampled_from([None, *TABLES]),
)


@dataclass
class Look:
    """What becomes true before a look: how long after the one before, what stands, what came and went, who is lost."""

    minutes: float
    standing: dict[str, RootCause]
    passed: dict[str, RootCause]
    retried: set[str]
    acknowledged: set[str]
    lost: set[str]


looks = st.builds(
    Look,
    minutes=st.sampled_from([0.1, 1, 3, 20, 90, 400]),
    standing=st.lists(causes, max_size=6).map(lambda found: {each.key: each for each in found}),
    passed=st.lists(causes, max_size=2).map(lambda found: {each.key: each for each in found}),
    retried=st.sets(st.sampled_from("abcdefgh")),
    acknowledged=st.sets(st.sampled_from("abcdefgh"), max_size=2),
    lost=st.sets(st.sampled_from(TARGETS)),
)


@dataclass
class World:
    """A ledger in memory, and targets that hear what reaches them."""

    alerting: Alerting
    now: datetime = START
    alerts: dict[int, Alert] = field(default_factory=dict)
    made: list[tuple[datetime, Message]] = field(default_factory=list)
    waiting: list[Message] = field(default_factory=list)
    heard: dict[str, list[tuple[MessageCause, int]]] = field(default_factory=lambda: {name: [] for name in TARGETS})

    def look(self, look: Look) -> None:
        self.now += timedelta(minutes=look.minutes)
        for alert in list(self.alerts.values()):
            if alert.is_open and alert.trouble.key in look.acknowledged:
                self.alerts[alert.number] = replace(alert, acknowledged=Acknowledged(self.now, "ann", "known"))
        before = dict(self.alerts)
        known = StoredAlerts(
            tuple(alert for alert in self.alerts.values() if not alert.is_finished),
            {name: tuple(at for at, message in self.made if message.target == name) for name in TARGETS},
            frozenset(message.target for message in self.waiting),
            len(self.alerts) + 1,
        )
        passed = [each for key, each in look.passed.items() if key not in look.standing]
        unsettled = lambda trouble: trouble.batches if trouble.key in look.retried else {}  # noqa: E731
        come = decide(known, AlertInput(list(look.standing.values()), passed, unsettled), self.alerting, self.now)
        self.alerts |= {alert.number: alert for alert in come.changed}
        self._check(look, before, come.messages)
        self.made += [(self.now, message) for message in come.messages]
        self.waiting += come.messages
        self._send(look.lost)

    def _send(self, lost: set[str]) -> None:
        kept = []
        for message in self.waiting:
            if message.target in lost:
                kept.append(message)
            else:
                self.heard[message.target] += [(telling, alert.number) for telling, alert in message.alerts]
        self.waiting = kept

    def _check(self, look: Look, before: dict[int, Alert], messages: tuple[Message, ...]) -> None:
        open_keys = [alert.trouble.key for alert in self.alerts.values() if alert.is_open]
        assert sorted(open_keys) == sorted(set(open_keys)), "a cause has one alert"
        was_open = {alert.trouble.key for alert in before.values() if alert.is_open}
        assert set(open_keys) == set(look.standing) | (was_open & look.retried), "all that stands is open, nothing else"
        for message in messages:
            for telling, alert in message.alerts:
                assert not self._is_quiet(message.target, alert), "nobody is told in quiet hours"
                if telling is MessageCause.REPEATED:
                    told = before[alert.number].notifications[message.target]
                    assert alert.acknowledged is None
                    assert self.now - told.last >= timedelta(hours=1)

    def _is_quiet(self, target: str, alert: Alert) -> bool:
        own = [rule for rule in self.alerting.rules if target in rule.targets]
        meant = [rule for rule in own if is_meant(rule, alert.trouble)] or own
        return all(rule.quiet is not None and rule.quiet.is_quiet_at(self.now) for rule in meant)

    def quieten(self) -> None:
        """Let all be mended, and days go by in which everybody can be reached."""
        for _ in range(60):
            self.look(Look(61, {}, {}, set(), set(), set()))


@settings(max_examples=60, deadline=None)
@given(rules=st.lists(rules, min_size=1, max_size=3), history=st.lists(looks, max_size=25))
def test_each_cause_is_reported_once_and_resolved_once_despite_lost_messages(
    rules: list[AlertRule], history: list[Look]
) -> None:
    targets = {name: Target(name, TargetKind.WEBHOOK, "http://x") for name in TARGETS}
    world = World(Alerting(targets, tuple(rules), is_on=True))
    for look in history:
        world.look(look)
    world.quieten()
    assert not world.waiting
    for alert in world.alerts.values():
        assert alert.is_finished
        for target in TARGETS:
            told = [telling for telling, number in world.heard[target] if number == alert.number]
            own = [rule for rule in rules if target in rule.targets]
            if not told:
                assert not any(is_meant(rule, alert.trouble) for rule in own)
            elif told != [MessageCause.PASSED]:
                assert told[0] is MessageCause.FIRING
                assert told[-1] is MessageCause.RESOLVED or not own
                assert set(told[1:-1]) <= {MessageCause.REPEATED}
    for target in TARGETS:
        times = [at for at, message in world.made if message.target == target]
        for at, later in zip(times, times[MOST:], strict=False):
            before = max(other for other in times if other < later) if later > at else at
            assert later - at >= WITHIN or later - before >= APART, "after so many, one at a time"


@settings(max_examples=50, deadline=None)
@given(hours=st.integers(1, 200), every=st.integers(1, 9), ends=st.booleans())
def test_an_ongoing_alert_is_repeated_at_its_declared_interval(hours: int, every: int, *, ends: bool) -> None:
    rule = AlertRule("r", frozenset(TABLES), Severity.WARNING, ("ops",), timedelta(hours=every))
    world = World(Alerting({"ops": Target("ops", TargetKind.WEBHOOK, "http://x")}, (rule,), is_on=True))
    cause = RootCause("a", TroubleKind.FAILED, "a", {"raw.a": frozenset({START})})
    for _ in range(hours):
        world.look(Look(60, {"a": cause}, {}, set(), set(), set()))
    if ends:
        world.look(Look(60, {}, {}, set(), set(), set()))
    told = [telling for telling, _ in world.heard["ops"]]
    again = (hours - 1) // every
    assert told == [MessageCause.FIRING, *[MessageCause.REPEATED] * again, *([MessageCause.RESOLVED] if ends else [])]
