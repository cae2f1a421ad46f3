"""Installs the wheel with each of its extras by name, and imports the packages of each extra.

python3 tests/extras.py pip install                  builds the wheel, then installs it once per extra
python3 tests/extras.py uv tool install --force      the same with another installer
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: list[str]) -> None:
    """Install each extra with the installer that `arguments` name, or import one: `--import EXTRA`."""
    if arguments[:1] == ["--import"]:
        sys.stdout.write(f"{arguments[1]}: imported {', '.join(import_packages(arguments[1]))}\n")
        return
    wheel = build_wheel(Path(tempfile.mkdtemp()))
    for extra in read_extras(wheel):
        subprocess.run([*arguments, f"waterclock[{extra}] @ {wheel.as_uri()}"], check=True)
        # -P: modules next to this file, such as firebird.py, do not replace the packages
        subprocess.run([find_interpreter(), "-P", str(Path(__file__)), "--import", extra], check=True)


def build_wheel(folder: Path) -> Path:
    """Build the checkout's wheel in `folder`, with pip in a separate environment."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "build")], check=True)
    pip = [str(folder / "build" / "bin" / "pip"), "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    subprocess.run([*pip, str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def read_extras(wheel: Path) -> list[str]:
    """Return the names of the extras that the wheel's metadata declare."""
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        lines = opened.read(name).decode().splitlines()
    extras = [line.removeprefix("Provides-Extra: ") for line in lines if line.startswith("Provides-Extra: ")]
    if not extras:
        sys.exit(f"{wheel.name} declares no extra")
    return extras


def find_interpreter() -> str:
    """Return the Python of the `waterclock` command on PATH, from the command's first line."""
    command = shutil.which("waterclock")
    if command is None:
        sys.exit("the installer put no waterclock on PATH")
    return Path(command).read_text(encoding="utf-8").splitlines()[0].removeprefix("#!")


def import_packages(extra: str) -> list[str]:
    """Import a module of each package that the extra requires, and return their names. Exit if one is missing."""
    in_extra = re.compile(rf"extra == ['\"]{re.escape(extra)}['\"]")
    lines = [line for line in metadata.requires("waterclock") or () if in_extra.search(line)]
    wanted = {plain_name(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines}
    modules: dict[str, str] = {}
    for module, packages in sorted(metadata.packages_distributions().items()):
        for package in map(plain_name, packages):
            if package not in modules or plain_name(module) == package:  # some packages contain several modules
                modules[package] = module
    missing = sorted(wanted - modules.keys())
    if missing or not wanted:
        sys.exit(f"{extra}: {', '.join(missing) or 'any package'} is missing")
    found = sorted(modules[package] for package in wanted)
    for module in found:
        importlib.import_module(module)
    return found


def plain_name(package: str) -> str:
    """Return the package's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", package).lower()


if __name__ == "__main__":
    main(sys.argv[1:])
