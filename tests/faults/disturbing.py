"""Runners of one project in separate processes, disturbed by kills, long sleeps and clocks an hour apart.

    python -m tests.faults.disturbing FOLDER NOW

runs due batches as one of the runners, on the JVM that the environment names. It ends when no runner has work.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tests.faults.killing import session_there
from tests.tiny import Heard, Tiny, described
from waterclock.engine.run_settings import RunSettings

LEASE = 1.5
REPOSITORY = Path(__file__).parents[2]
_LIBRARIES = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib*/faketime/libfaketime.so.1")


def clock_of_its_own(seconds: int) -> dict[str, str]:
    """Return environment variables that shift the clock of a process; durations are not affected."""
    if not seconds:
        return {}
    found = [path for pattern in _LIBRARIES for path in Path("/").glob(pattern.lstrip("/"))]
    assert found, "libfaketime is not installed: bin/_servers says what to install"
    return {"LD_PRELOAD": str(found[0]), "FAKETIME": f"{seconds:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def has_faketime() -> bool:
    """Return whether the clock of a process can be shifted."""
    return shutil.which("faketime") is not None


@dataclass
class Runners:
    """Processes that all run due batches at `now`; a killed process is replaced by a new one."""

    root: Path
    now: datetime
    gateway: Mapping[str, str]
    drawn: random.Random
    skews: tuple[int, ...] = (0,)
    running: list[subprocess.Popen[str]] = field(default_factory=list)
    disturbed: int = 0
    log: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Start one more runner."""
        skew = self.drawn.choice(self.skews)
        self.running.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.faults.disturbing", str(self.root), self.now.isoformat()],
                cwd=REPOSITORY,
                env=os.environ | dict(self.gateway) | clock_of_its_own(skew),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )

    def disturb(self) -> None:
        """Kill one runner and start another, or suspend one for longer than its lease."""
        alive = [process for process in self.running if process.poll() is None]
        if not alive:
            return
        process = self.drawn.choice(alive)
        self.disturbed += 1
        if self.drawn.random() < 0.5:
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.running.remove(process)
            self._close(process)
            self.start()
            return
        process.send_signal(signal.SIGSTOP)
        time.sleep(LEASE * self.drawn.uniform(1.2, 2.2))
        process.send_signal(signal.SIGCONT)

    def wait(self, *, patience: float) -> None:
        """Wait until all runners have ended, and assert that none reports a failure."""
        end = time.monotonic() + patience
        for process in self.running:
            assert process.wait(max(1.0, end - time.monotonic())) == 0, self._close(process)
            self._close(process)

    def end(self) -> None:
        """Kill all running processes."""
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.wait()
            self._close(process)

    def _close(self, process: subprocess.Popen[str]) -> str:
        if process.stderr is None or process.stderr.closed:
            return ""
        said = process.stderr.read()
        process.stderr.close()
        self.log.append(said)
        return said


@contextmanager
def watched(look: Callable[[], None]) -> Iterator[list[BaseException]]:
    """Call `look` repeatedly from a separate thread until the block ends; yield the list of its errors."""
    stop, wrong, looks = threading.Event(), list[BaseException](), list[int]()

    def keep_looking() -> None:
        while not stop.wait(0.02):
            try:
                look()
            except BaseException as error:  # noqa: BLE001 - the test reports it
                wrong.append(error)
                return
            looks.append(1)

    thread = threading.Thread(target=keep_looking, name="reader")
    thread.start()
    try:
        yield wrong
    finally:
        stop.set()
        thread.join()
    assert looks or wrong, "the check never ran"


def main(folder: str, now: str) -> int:
    """Run due batches, wait for those of other runners, and return 1 if one failed for good."""
    heard = Heard()
    settings = RunSettings(threads=2, attempts=3, retry_wait=0.05, lease=LEASE, who="a test")
    tiny = Tiny(Path(folder), session_there(), toml=None, heard=heard, settings=settings)
    outcome = tiny.run(datetime.fromisoformat(now), waits=True)
    sys.stderr.write(f"{settings.runner}: {outcome.done} done, {described(outcome)}, {heard.said_}\n")
    sys.stderr.flush()
    code = 1 if outcome.failed else 0
    # the JVM belongs to another process: leave it running
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
