"""The arguments of bin/fresh, which runs the README's commands on fresh machines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

FRESH = Path(__file__).parents[2] / "bin" / "fresh"


def run_fresh(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(FRESH), *arguments], capture_output=True, text=True, check=False)


def test_list_names_each_row_and_every_row_has_its_function() -> None:
    done = run_fresh("--list")
    assert (done.returncode, done.stderr) == (0, "")
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert {"debian-12", "debian-13", "user", "wheel", "offline", "terminals"} <= set(names)
    functions = [line for line in FRESH.read_text(encoding="utf-8").splitlines() if line.startswith("row_")]
    assert functions == [f"row_{name}() {{" for name in names]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("debian-13", "debian-99"), "there is no row debian-99. The rows are: debian-12 debian-13 "),
        (("debian.12",), "there is no row debian.12. "),
        (("--", "true"), "name the row whose machine runs the commands"),
    ],
)
def test_arguments_that_name_no_row_are_refused_before_anything_is_made(
    arguments: tuple[str, ...], message: str
) -> None:
    done = run_fresh(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"bin/fresh: {message}")
