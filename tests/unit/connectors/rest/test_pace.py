from __future__ import annotations

import subprocess
import sys
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors.rest.declared import rate_of
from waterclock.connectors.rest.pace import SharedPace


def most_in(times: list[float], period: float) -> int:
    """The most that lie in any period, wherever it begins."""
    times = sorted(times)
    return max(bisect_left(times, time + period - 1e-6) - at for at, time in enumerate(times))


@given(st.lists(st.floats(0, 0.7), min_size=1, max_size=15), st.integers(1, 4))
def test_no_period_has_more_requests_than_the_rate(tmp_path_factory: object, steps: list[float], count: int) -> None:
    folder: Path = tmp_path_factory.mktemp("pace")  # type: ignore[attr-defined]
    now = [1000.0]
    pace = SharedPace(folder / "rate.db", count, 1.0, clock=lambda: now[0])
    went = []
    for step in steps:
        now[0] += step
        went.append(now[0] + pace.reserve())
    assert most_in(went, 1.0) <= count
    assert went == sorted(went)


def test_threads_and_processes_share_a_rate(tmp_path: Path) -> None:
    file = tmp_path / "rate.db"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom waterclock.connectors.rest.pace import SharedPace\n"
        "pace = SharedPace(Path(sys.argv[1]), 5, 0.4)\n"
        "for _ in range(8):\n    time.sleep(pace.reserve())\n    print(time.time())\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE) for _ in range(2)]
    pace = SharedPace(file, 5, 0.4)

    def reserved(_: int) -> float:
        return pace.clock() + pace.reserve()

    with ThreadPoolExecutor(4) as threads:
        own = list(threads.map(reserved, range(6)))
    others = [float(line) for process in processes for line in process.communicate()[0].split()]
    assert len(others) == 16
    assert most_in(own, 0.38) <= 5
    assert most_in(others, 0.3) <= 6  # they tell when they woke, which is later by what the machine makes of it


def test_a_pause_holds_all(tmp_path: Path) -> None:
    now = [1000.0]
    one = SharedPace(tmp_path / "rate.db", 10, 1.0, clock=lambda: now[0])
    other = SharedPace(tmp_path / "rate.db", 10, 1.0, clock=lambda: now[0])
    one.pause(30)
    assert other.reserve() == 30.0
    now[0] += 31
    assert other.reserve() == 0.0


def test_rates_are_read() -> None:
    assert rate_of("10 PER SECOND") == (10, 1.0)
    assert rate_of("600 per minute") == (600, 60.0)
    assert rate_of("100 PER 15 MINUTES") == (100, 900.0)
    assert [rate_of(text) for text in ("10", "0 PER SECOND", "1 PER 0 HOURS", "ten PER DAY")] == [None] * 4
