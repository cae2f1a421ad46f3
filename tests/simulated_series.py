"""Realistic series of measures with injected faults, and how `usual` and `trend` detect them.

python -m tests.simulated_series    print recall, false positives and precision by kind of series, then trends

Values vary around a drifting level, by 5 to 15 percent (lognormal); weekends and hours have their own level, on the
clocks of New York with both changes of the clock in spring. 1 in 100 values of the history is an undetected fault.
Faults are searched one step ahead: no rows, half, twice or five times the value. A factor of 0.7 is reported
separately, as it cannot be distinguished from noise of 15 percent.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from waterclock.flow.seasonal_baseline import trend, usual

ZONE = "America/New_York"
RULES = ZoneInfo(ZONE)
FIRST = datetime(2024, 2, 1, tzinfo=RULES)
DAYS, LEARNT = 100, 45
FAULTS = {"zero": 0.0, "half": 0.5, "twice": 2.0, "five times": 5.0, "seven tenths": 0.7}
MILD = "seven tenths"
AT_HOUR = [math.exp(1.2 * math.sin((hour - 9) / 24 * 2 * math.pi)) for hour in range(24)]


@dataclass(slots=True)
class Found:
    """The number of severe faults found and missed, of values taken for faults, and the cost."""

    hits: int = 0
    misses: int = 0
    false: int = 0
    true: int = 0
    mild_hits: int = 0
    mild: int = 0
    seconds: float = 0.0

    @property
    def recall(self) -> float:
        return self.hits / (self.hits + self.misses)

    @property
    def precision(self) -> float:
        return self.hits / (self.hits + self.false)

    @property
    def false_share(self) -> float:
        return self.false / (self.false + self.true)


def series(kind: str, dice: random.Random) -> list[tuple[datetime, float]]:
    """Return a series without faults: `hourly`, `daily`, or `flat`, which is daily without a season."""
    noise, base = dice.uniform(0.05, 0.15), dice.choice([200, 2000, 50000])
    drift, weekend = dice.uniform(-0.15, 0.3) / 90, dice.uniform(0.3, 1.0)
    made = []
    for index in range(DAYS * (24 if kind == "hourly" else 1)):
        if kind == "hourly":
            at = FIRST.astimezone(UTC) + timedelta(hours=index)
        else:
            at = (FIRST + timedelta(days=index)).astimezone(UTC)
        local = at.astimezone(RULES)
        value = base * math.exp(drift * index / (24 if kind == "hourly" else 1) + dice.gauss(0, noise))
        value *= weekend if kind != "flat" and local.weekday() > 4 else 1
        value *= AT_HOUR[local.hour] if kind == "hourly" else 1
        made.append((at, float(round(value))))
    return made


def searched(kind: str, seeds: Iterable[int], *, spreads: float = 4.5, share: float = 1.0) -> Found:
    """Search for faults in a `share` of the values of each series; in 1 of 7 of these values one is injected."""
    found = Found()
    step = timedelta(hours=1) if kind == "hourly" else timedelta(days=1)
    for seed in seeds:
        dice = random.Random(seed)
        clean = series(kind, dice)
        passed = [(at, round(value * dice.choice(list(FAULTS.values()))) if dice.random() < 0.01 else value)
                  for at, value in clean]  # fmt: skip
        for index in range(len(clean) * LEARNT // DAYS, len(clean)):
            if dice.random() > share:
                continue
            at, value = clean[index]
            fault = dice.choice(list(FAULTS)) if dice.random() < 1 / 7 else None
            begun = time.perf_counter()
            told = usual(passed[:index], at, step=step, zone=ZONE)
            found.seconds += time.perf_counter() - begun
            assert told is not None
            seen = round(value * FAULTS[fault]) if fault else value
            is_hit = not told.at(-spreads) <= seen <= told.at(spreads)  # as a rule checks it
            if fault is None:
                found.false += is_hit
                found.true += not is_hit
            elif fault == MILD:
                found.mild_hits += is_hit
                found.mild += 1
            else:
                found.hits += is_hit
                found.misses += not is_hit
    return found


@dataclass(slots=True)
class Crept:
    """How `trend` judges creeping series: alarms before the creep starts, and days until one after it.

    A series that is never reported in its days has no number in `days_until`.
    """

    healthy: int = 0
    alarms: int = 0
    days_until: list[int] = field(default_factory=list)
    series: int = 0

    @property
    def false_share(self) -> float:
        return self.alarms / self.healthy


HEALTHY, CREEPING = 120, 90


def crept(
    seeds: Iterable[int], *, days: int, low: float, high: float, a_day: float, noise: float | None = None
) -> Crept:
    """Judge daily series that are stable for 120 days, then creep by `a_day` for 90, against bounds of a trend.

    The healthy days count from the first on, including those without a trend yet.
    """
    found = Crept()
    for seed in seeds:
        dice = random.Random(seed)
        spread, base = noise or dice.uniform(0.05, 0.15), dice.choice([200, 2000, 50000])
        weekend = dice.uniform(0.3, 1.0)
        values: list[tuple[datetime, float]] = []
        for index in range(HEALTHY + CREEPING):
            at = (FIRST + timedelta(days=index)).astimezone(UTC)
            told = trend(values, at, days=days, step=timedelta(days=1), zone=ZONE)
            is_alarm = told is not None and not low <= told <= high
            if index < HEALTHY:
                found.healthy, found.alarms = found.healthy + 1, found.alarms + is_alarm
            elif is_alarm:
                found.days_until.append(index - HEALTHY)
                break
            value = base * math.exp(dice.gauss(0, spread) + math.log1p(a_day) * max(0, index - HEALTHY))
            value *= weekend if at.astimezone(RULES).weekday() > 4 else 1
            values.append((at, float(round(value))))
        found.series += 1
    return found


def main() -> None:
    """Print the results."""
    for kind, count, share in (("daily", 120, 1.0), ("flat", 120, 1.0), ("hourly", 12, 0.1)):
        for spreads in (4.0, 4.5, 5.0):
            found = searched(kind, range(count), spreads=spreads, share=share)
            sys.stdout.write(
                f"{kind} {spreads}: recall {found.recall:.3f}, precision {found.precision:.3f}, "
                f"false {found.false_share:.5f}, mild {found.mild_hits / found.mild:.2f}\n"
            )
    for days, low, high in ((30, 0.8, 1.25), (30, 0.75, 4 / 3), (60, 0.75, 4 / 3)):
        for noise in (0.05, 0.1, 0.15):
            judged = crept(range(200), days=days, low=low, high=high, a_day=-0.005, noise=noise)
            until = sorted(judged.days_until)
            middle = until[len(until) // 2] if until else None
            sys.stdout.write(
                f"trend over {days} days, {low:.2f} to {high:.2f}, noise {noise:.0%}: {judged.alarms} alarms in "
                f"{judged.healthy} healthy days; 0.5 % a day reported in {len(until)} of {judged.series}, "
                f"half of them after {middle} days\n"
            )


if __name__ == "__main__":
    main()
