"""The flights example as it is committed, in a folder of a test: never with what `./bin/demo` left in the checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "flights"
COMMITTED = ("*.py", "*.toml", "*.md", ".gitignore", "flows/*.dpl", "flows/*.py", "specs/*.feature")


def committed() -> list[Path]:
    """Return the example's own files, relative to its folder. Git is not asked: an unpacked source has none."""
    return sorted(path.relative_to(EXAMPLE) for pattern in COMMITTED for path in EXAMPLE.glob(pattern))


def put_flights(folder: Path) -> Path:
    """Copy the example's own files into a folder, which is made where it is absent."""
    for path in committed():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(EXAMPLE / path, folder / path)
    return folder
